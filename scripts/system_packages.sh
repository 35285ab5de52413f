#!/bin/sh
# Debian packages that the build and the tests need. As root with apt they are installed; otherwise the
# missing ones are named. A C++20 compiler is needed to build; googletest for the C++ tests.
set -e
missing="" optional=""
command -v g++ >/dev/null 2>&1 || command -v clang++ >/dev/null 2>&1 || missing="$missing g++"
[ -e /usr/include/gtest/gtest.h ] || missing="$missing libgtest-dev"
"${PYTHON:-python3}" -c 'import venv, ensurepip, sysconfig, os; assert os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))' \
  2>/dev/null || missing="$missing python3-venv python3-dev"
command -v ccache >/dev/null 2>&1 || optional="ccache"
[ -z "$missing$optional" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing $optional >/dev/null
  exit 0
fi
[ -z "$missing" ] && exit 0
echo "poot needs these packages, by your system's names for them:$missing" >&2
echo "Install them (Debian, Ubuntu: sudo apt-get install$missing) and run make again." >&2
exit 1
