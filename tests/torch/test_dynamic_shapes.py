"""One compile serves all sizes in a guarded range."""

import torch

from poot_torch import _C


def small_bert():
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=512, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    return BertModel(config).eval()


def poot_graphs():
    return sum(v for k, v in torch._dynamo.utils.counters["poot"].items() if k.startswith("graphs"))


@torch.no_grad()
def test_bert_twelve_batches_and_lengths():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = small_bert()
    compiled = torch.compile(
        lambda ids: model(input_ids=ids).last_hidden_state, backend="poot", dynamic=True, options={"strict": True}
    )

    def check(batch, length):
        ids = torch.randint(0, 512, (batch, length), generator=torch.Generator().manual_seed(batch * 1000 + length))
        torch.testing.assert_close(compiled(ids), model(input_ids=ids).last_hidden_state, atol=2e-5, rtol=1e-4)

    check(4, 16)
    kernels = _C.store_stats()["compiled"] + _C.store_stats()["disk"]
    for i in range(12):
        check(2 + i, 8 + 3 * i)
    assert poot_graphs() == 1
    stats = _C.store_stats()
    assert stats["compiled"] + stats["disk"] == kernels, "a new size must not bring a new kernel"
    check(1, 16)
    assert poot_graphs() == 2
    assert not [k for k in torch._dynamo.utils.counters["poot"] if "fallback" in k]


def test_sizes_used_as_values():
    torch._dynamo.reset()

    def fn(x):
        return x * x.shape[0] + x.sum(-1, keepdim=True) / x.shape[1]

    compiled = torch.compile(fn, backend="poot", dynamic=True, options={"strict": True})
    for shape in ((3, 5), (7, 4), (20, 33), (2, 2)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), fn(x))
