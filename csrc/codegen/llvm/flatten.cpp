// Lays the allocated sections out (code first, then data on a fresh cache line), copies them, and
// applies the relocations between them. With the small PIC code model LLVM emits PC-relative
// 32-bit relocations only; anything else shows that the kernel reaches outside itself.
//
// The object comes from our own LLVM in the same process, but offsets are checked all the same: a
// bug there must end in an error here, not in a wrong image.
#include "codegen/llvm/flatten.h"

#include <elf.h>

#include <cstring>
#include <vector>

#include "program/image_format.h"
#include "program/kernel_abi.h"
#include "support/errors.h"
#include "support/hash.h"

namespace poot::codegen {

namespace {

class Flattener {
 public:
  explicit Flattener(std::string_view object) : object_(object) {}

  std::string run(std::string_view entry) {
    read_sections();
    lay_out();
    relocate();
    return finish(entry);
  }

 private:
  [[noreturn]] static void refuse(const char* rule, const std::string& where,
                                  const std::string& detail) {
    throw InvalidGraph(rule, where, detail);
  }

  template <class T>
  const T* at(uint64_t offset, uint64_t count) const {
    if (offset > object_.size() || count > (object_.size() - offset) / sizeof(T) ||
        (reinterpret_cast<uintptr_t>(object_.data()) + offset) % alignof(T) != 0)
      refuse("flatten-C1", "byte " + std::to_string(offset), "the object is truncated or skewed");
    return reinterpret_cast<const T*>(object_.data() + offset);
  }

  std::string text(const Elf64_Shdr& table, uint64_t offset) const {
    if (offset >= table.sh_size) return "?";
    const char* p = at<char>(table.sh_offset, table.sh_size) + offset;
    return std::string(p, strnlen(p, table.sh_size - offset));
  }

  void read_sections() {
    const auto* header = at<Elf64_Ehdr>(0, 1);
    if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_type != ET_REL || header->e_machine != EM_X86_64)
      refuse("flatten-C1", "header", "not a relocatable x86-64 object");
    count_ = header->e_shnum;
    sections_ = at<Elf64_Shdr>(header->e_shoff, count_);
    if (header->e_shstrndx >= count_) refuse("flatten-C1", "header", "no section names");
    const Elf64_Shdr& names = sections_[header->e_shstrndx];
    offset_.assign(count_, 0);
    for (uint32_t i = 0; i < count_; ++i) {
      const Elf64_Shdr& s = sections_[i];
      const std::string name = text(names, s.sh_name);
      if (s.sh_type == SHT_SYMTAB) {
        if (s.sh_link >= count_) refuse("flatten-C1", name, "no symbol names");
        symbol_count_ = s.sh_size / sizeof(Elf64_Sym);
        symbols_ = at<Elf64_Sym>(s.sh_offset, symbol_count_);
        symbol_names_ = &sections_[s.sh_link];
      }
      if (!(s.sh_flags & SHF_ALLOC) || s.sh_size == 0) continue;
      // Notes and unwind tables serve nobody: no frame unwinds through a kernel.
      if (s.sh_type == SHT_NOTE || s.sh_type == SHT_X86_64_UNWIND || name == ".eh_frame") continue;
      if (s.sh_flags & (SHF_WRITE | SHF_TLS))
        refuse("flatten-C3", name, "the section is writable or thread-local");
      if (s.sh_type != SHT_PROGBITS) refuse("flatten-C3", name, "the section has no contents");
      (s.sh_flags & SHF_EXECINSTR ? code_ : data_).push_back(i);
    }
    if (!symbols_) refuse("flatten-C1", "header", "no symbol table");
  }

  void lay_out() {
    uint64_t end = sizeof(program::ImageHeader);
    auto align = [&](uint64_t a) { end = a > 1 ? (end + a - 1) / a * a : end; };
    auto place = [&](const std::vector<uint32_t>& list) {
      align(program::kImageAlignment);
      for (uint32_t i : list) {
        const Elf64_Shdr& s = sections_[i];
        if (s.sh_addralign > 4096 || s.sh_size > (1u << 30))
          refuse("flatten-C1", "section " + std::to_string(i), "alignment or size out of range");
        align(s.sh_addralign);
        offset_[i] = end;
        end += s.sh_size;
      }
    };
    place(code_);
    code_end_ = end;
    place(data_);
    image_.assign(end, '\0');
    const uint64_t begin = code_begin();
    std::memset(image_.data() + begin, 0xcc, code_end_ - begin);  // int3 between functions
    for (const auto* list : {&code_, &data_})
      for (uint32_t i : *list)
        std::memcpy(image_.data() + offset_[i],
                    at<char>(sections_[i].sh_offset, sections_[i].sh_size), sections_[i].sh_size);
  }

  static constexpr uint64_t code_begin() {
    return (sizeof(program::ImageHeader) + program::kImageAlignment - 1) /
           program::kImageAlignment * program::kImageAlignment;
  }

  void relocate() {
    for (uint32_t r = 0; r < count_; ++r) {
      const Elf64_Shdr& table = sections_[r];
      if (table.sh_type != SHT_RELA || table.sh_info >= count_ || offset_[table.sh_info] == 0)
        continue;
      const uint64_t n = table.sh_size / sizeof(Elf64_Rela);
      const auto* entries = at<Elf64_Rela>(table.sh_offset, n);
      for (uint64_t k = 0; k < n; ++k) apply(entries[k], table.sh_info);
    }
  }

  void apply(const Elf64_Rela& rela, uint32_t section) {
    const uint64_t index = ELF64_R_SYM(rela.r_info);
    if (index >= symbol_count_) refuse("flatten-C1", "relocation", "names no symbol");
    const Elf64_Sym& symbol = symbols_[index];
    const std::string name = text(*symbol_names_, symbol.st_name);
    if (symbol.st_shndx == SHN_UNDEF) refuse("flatten-C2", name, "the symbol is undefined");
    if (symbol.st_shndx >= count_ || offset_[symbol.st_shndx] == 0)
      refuse("flatten-C4", name, "the symbol lies outside the image");
    const uint32_t type = ELF64_R_TYPE(rela.r_info);
    const unsigned width = type == R_X86_64_PC64 ? 8 : 4;
    const uint64_t size = sections_[section].sh_size;
    if (size < width || rela.r_offset > size - width)
      refuse("flatten-C4", name, "the relocation lies outside its section");
    const auto place = static_cast<int64_t>(offset_[section] + rela.r_offset);
    const auto target = static_cast<int64_t>(offset_[symbol.st_shndx] + symbol.st_value);
    const int64_t value = target + rela.r_addend - place;
    switch (type) {
      case R_X86_64_PC32:
      case R_X86_64_PLT32: {
        const auto narrow = static_cast<int32_t>(value);
        if (narrow != value) refuse("flatten-C4", name, "the distance exceeds 32 bits");
        std::memcpy(image_.data() + place, &narrow, 4);
        break;
      }
      case R_X86_64_PC64:
        std::memcpy(image_.data() + place, &value, 8);
        break;
      default:
        refuse("flatten-C4", name,
               "relocation type " + std::to_string(type) + " is not PC-relative");
    }
  }

  std::string finish(std::string_view entry) {
    program::ImageHeader header{};
    std::memcpy(header.magic, program::kImageMagic, sizeof header.magic);
    header.version = program::kImageVersion;
    header.abi = program::kKernelAbiVersion;
    header.size = image_.size();
    header.code_begin = static_cast<uint32_t>(code_begin());
    header.code_end = static_cast<uint32_t>(code_end_);
    for (uint64_t k = 1; k < symbol_count_; ++k) {
      const Elf64_Sym& s = symbols_[k];
      if (s.st_shndx < count_ && offset_[s.st_shndx] != 0 && ELF64_ST_TYPE(s.st_info) == STT_FUNC &&
          text(*symbol_names_, s.st_name) == entry)
        header.entry = static_cast<uint32_t>(offset_[s.st_shndx] + s.st_value);
    }
    if (header.entry < header.code_begin || header.entry >= header.code_end)
      refuse("flatten-C5", std::string(entry), "the object has no such function");
    header.hash = content_hash(std::string_view(image_).substr(sizeof header)).lo;
    std::memcpy(image_.data(), &header, sizeof header);
    return std::move(image_);
  }

  std::string_view object_;
  uint32_t count_ = 0;
  const Elf64_Shdr* sections_ = nullptr;
  const Elf64_Sym* symbols_ = nullptr;
  uint64_t symbol_count_ = 0;
  const Elf64_Shdr* symbol_names_ = nullptr;
  std::vector<uint32_t> code_, data_;  // sections of the image
  std::vector<uint64_t> offset_;       // of each section in the image; 0: not in it
  uint64_t code_end_ = 0;
  std::string image_;
};

}  // namespace

std::string flatten(std::string_view object, std::string_view entry) {
  return Flattener(object).run(entry);
}

}  // namespace poot::codegen
