#!/usr/bin/env bash
# Installs what a build of sgtrain needs on Debian 12: packages, and LibTorch into .deps/libtorch.
#
#   scripts/setup.sh [--cuda] [--peers] [--runtime]
#     --cuda   the CUDA flavour of LibTorch (building with it needs no GPU)
#     --peers  the Python packages that tests compare with, into .venv-peer (implies --cuda: the
#              torch package cannot be imported without CUDA's libraries)
#     --runtime  nothing but the packages that an installed sgtrain needs to run
#
# Idempotent: a second run only checks. Packages need root or sudo; nothing else does. pip and apt
# are used as the machine has them configured. Downloads are kept in $SGTRAIN_CACHE, else
# $XDG_CACHE_HOME/sgtrain, else ~/.cache/sgtrain, so that another clone does not fetch them again.
set -euo pipefail
cd "$(dirname "$0")/.."

flavour=cpu
peers=no
runtime=no
for argument in "$@"; do
  case $argument in
    --cuda) flavour=cuda ;;
    --peers) flavour=cuda peers=yes ;;
    --runtime) runtime=yes ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "setup: unknown option $argument (known: --cuda, --peers, --runtime)" >&2; exit 2 ;;
  esac
done

die() { echo "setup: $*" >&2; exit 1; }
say() { echo "setup: $*"; }

[ "$(uname -m)" = x86_64 ] || die "LibTorch's wheel is fetched for x86_64 only; this is $(uname -m)"

# ---- Debian packages --------------------------------------------------------------------------
packages=(
  g++ cmake ninja-build make ccache mold pkg-config git ca-certificates curl python3  # build
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libsimdjson-dev libtinyxml2-dev libcurl4-openssl-dev zlib1g-dev
  libjpeg62-turbo-dev libpng-dev libwebp-dev                                      # images
  libopencv-imgproc-dev libopencv-imgcodecs-dev libopencv-videoio-dev             # last two: a module
  libgloo-dev                                                                     # headers only
  catch2 dataset-fashion-mnist                                                    # tests, quick start
)
runtime_packages=(
  ca-certificates libstdc++6 libyaml-cpp0.7 libsimdjson14 libtinyxml2-9 libcurl4 zlib1g libjpeg62-turbo libpng16-16
  libwebp7 libopencv-core406 libopencv-imgproc406 libopencv-imgcodecs406 libopencv-videoio406
)

install_packages() {
  command -v apt-get >/dev/null ||
    die "no apt-get here. On another distribution install the equivalents of: $*"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "needs root or sudo to install: $*"
    sudo=(sudo)
  fi
  say "installing $# packages: $*"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 "$@" >/dev/null || die "apt-get could not install: $*"
}

require_packages() {
  local missing=() package
  declare -A installed=()
  while read -r package; do
    installed[${package%%:*}]=1
  done < <(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^ii  *//p')
  for package in "$@"; do
    [ -n "${installed[$package]:-}" ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
}

# ---- wheels: name, version, sha256, and for CUDA's libraries: folder, soname and header ----------
# A library that the toolkit of this machine has is linked from there; else its wheel is fetched.
torch_wheel="torch 2.11.0 7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a"
cpu_wheels=(
  "$torch_wheel"
  "nvidia-cuda-cupti 13.0.85 4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8"
  "nvidia-cuda-runtime 13.0.96 7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548"
)
cuda_wheels=(
  "nvidia-nvshmem-cu13 3.4.5 290f0a2ee94c9f3687a02502f3b9299a9f9fe826e6d0287ee18482e78d495b80 nvshmem libnvshmem_host.so.3 nvshmem.h"
  "nvidia-cusparselt-cu13 0.8.0 25e30a8a7323935d4ad0340b95a0b69926eee755767e8e0b1cf8dd85b197d3fd cusparselt libcusparseLt.so.0 cusparseLt.h"
  "nvidia-cufile 1.15.1.6 08a3ecefae5a01c7f5117351c64f17c7c62efa5fffdbe24fc7d298da19cd0b44 cu13 libcufile.so.0 cufile.h"
  "nvidia-cublas 13.1.0.3 ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171 cu13 libcublas.so.13 cublas_v2.h"
  "nvidia-cufft 12.0.0.61 6c44f692dce8fd5ffd3e3df134b6cdb9c2f72d99cf40b62c32dde45eea9ddad3 cu13 libcufft.so.12 cufft.h"
  "nvidia-curand 10.4.0.35 1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc cu13 libcurand.so.10 curand.h"
  "nvidia-cusolver 12.0.4.66 0a759da5dea5c0ea10fd307de75cdeb59e7ea4fcb8add0924859b944babf1112 cu13 libcusolver.so.12 cusolverDn.h"
  "nvidia-cusparse 12.6.3.3 2b3c89c88d01ee0e477cb7f82ef60a11a4bcd57b6b87c33f789350b59759360b cu13 libcusparse.so.12 cusparse.h"
  "nvidia-nvjitlink 13.0.88 13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b cu13 libnvJitLink.so.13 nvJitLink.h"
  "nvidia-cuda-nvrtc 13.0.88 ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575 cu13 libnvrtc.so.13 nvrtc.h"
  "nvidia-cuda-crt 13.0.88 2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4 cu13 - crt/host_defines.h"
  "nvidia-cudnn-cu13 9.19.0.56 d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf cudnn libcudnn.so.9 cudnn.h"
  "nvidia-nccl-cu13 2.28.9 e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42 nccl libnccl.so.2 nccl.h"
)
toolkit=${CUDA_HOME:-/usr/local/cuda}

cache=${SGTRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sgtrain}/wheels
deps=.deps/libtorch
# Changes when the lists above or the rule below what to unpack change.
revision="$flavour $(sed -n '/^# ---- wheels/,/^# ---- Python peers/p' "$0" | cksum)"
stamp=$deps/.complete

wheel_file() {  # NAME VERSION: the wheel in the cache, or nothing
  compgen -G "$cache/${1//-/_}-$2-*.whl" | head -1 || true
}

fetch_wheels() {  # "NAME VERSION SHA256…" …: those that the cache lacks
  local wheel name version sha requirements=""
  for wheel in "$@"; do
    read -r name version sha _ <<<"$wheel"
    [ -n "$(wheel_file "$name" "$version")" ] ||
      requirements+="$name==$version --hash=sha256:$sha"$'\n'
  done
  [ -n "$requirements" ] || return 0
  python3 -m pip --version >/dev/null 2>&1 || require_packages python3-pip
  mkdir -p "$cache"
  local list part
  list=$(mktemp) part=$(mktemp -d "$cache/part.XXXXXX")
  printf '%s' "$requirements" >"$list"
  say "fetching $(cut -d' ' -f1 "$list" | tr '\n' ' ')(torch is 530 MB)"
  python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
    --retries 5 --timeout 60 --implementation cp --python-version 3.11 \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
    --platform manylinux_2_25_x86_64 --platform manylinux_2_24_x86_64 \
    --platform manylinux_2_18_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 -d "$part" -r "$list" ||
    { rm -rf "$part" "$list"; die "pip could not fetch the wheels named above"; }
  mv "$part"/*.whl "$cache/"
  rm -rf "$part" "$list"
}

unpack_wheel() {  # "NAME VERSION SHA256…" PATTERN…: the members of the wheel that match, into $deps
  local wheel=$1 name version sha file
  shift
  read -r name version sha _ <<<"$wheel"
  file=$(wheel_file "$name" "$version")
  if ! echo "$sha  $file" | sha256sum --check --status; then
    rm -f "$file"
    die "$file was damaged and has been removed: run scripts/setup.sh again"
  fi
  # Every file is written beside its place and renamed, so that an interrupted run leaves no half file.
  python3 - "$file" "$deps" "$@" <<'PYTHON'
import fnmatch, os, shutil, sys, zipfile
wheel, target, patterns = sys.argv[1], sys.argv[2], sys.argv[3:]
with zipfile.ZipFile(wheel) as archive:
    chosen = [i for i in archive.infolist()
              if not i.is_dir() and not i.filename.endswith(".a") and any(fnmatch.fnmatchcase(i.filename, p) for p in patterns)]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(i.filename, pattern) for i in chosen):
            sys.exit(f"setup: {os.path.basename(wheel)} has no {pattern}")
    for info in chosen:
        path = os.path.join(target, info.filename)
        if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) == info.file_size:
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with archive.open(info) as source, open(path + ".part", "wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
        os.replace(path + ".part", path)
PYTHON
}

toolkit_has() {  # SONAME HEADER
  [ "$1" = - ] || [ -e "$toolkit/lib64/$1" ] || return 1
  [ -e "$toolkit/include/$2" ]
}

link_from_toolkit() {  # FOLDER SONAME: its family of libraries, where libtorch_cuda's RPATH looks
  [ "$2" != - ] || return 0
  local library
  mkdir -p "$deps/nvidia/$1/lib"
  for library in "$toolkit/lib64/${2%%.so*}"*.so.*; do
    ln -sfn "$library" "$deps/nvidia/$1/lib/$(basename "$library")"
  done
}

unpack_libtorch() {
  local wanted=("${cpu_wheels[@]}") wheel folder soname header
  if [ $flavour = cuda ]; then
    for wheel in "${cuda_wheels[@]}"; do
      read -r _ _ _ folder soname header <<<"$wheel"
      toolkit_has "$soname" "$header" || wanted+=("$wheel")
    done
  fi
  fetch_wheels "${wanted[@]}"
  say "unpacking LibTorch 2.11.0 ($flavour flavour) into $deps"
  rm -f "$stamp"
  unpack_wheel "$torch_wheel" 'torch/include/*' 'torch/share/*' 'torch-*.dist-info/licenses/*' \
    torch/lib/lib{torch_cpu,c10,torch}.so 'torch/lib/libgomp.so.1'
  unpack_wheel "${cpu_wheels[1]}" 'nvidia/cu13/lib/libcupti.so.13'
  unpack_wheel "${cpu_wheels[2]}" 'nvidia/cu13/lib/libcudart.so.13' 'nvidia/cu13/include/*'
  if [ $flavour = cuda ]; then
    unpack_wheel "$torch_wheel" \
      torch/lib/lib{torch_cuda,c10_cuda,torch_cuda_linalg,torch_nvshmem,caffe2_nvrtc}.so
    for wheel in "${cuda_wheels[@]}"; do
      read -r _ _ _ folder soname header <<<"$wheel"
      if toolkit_has "$soname" "$header"; then
        link_from_toolkit "$folder" "$soname"
      else
        unpack_wheel "$wheel" 'nvidia/*'
      fi
    done
  fi
  echo "$revision" >"$stamp"
}

# ---- Python peers of the tests --------------------------------------------------------------------
install_peers() {
  local venv=.venv-peer requirements=scripts/peer_requirements.txt
  cmp -s "$requirements" $venv/complete && return 0
  python3 -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    die "the Python peers need Python 3.11 (torch's wheel is for it); python3 here is another version"
  python3 -c 'import ensurepip, venv' 2>/dev/null || require_packages python3-venv
  say "installing Python peers into $venv"
  rm -rf $venv
  python3 -m venv $venv
  $venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-compile \
    --find-links "$cache" -r "$requirements"
  # The wheel's RPATH finds CUDA's libraries in ../../nvidia: those that LibTorch uses.
  ln -sfn "$PWD/$deps/nvidia" "$(echo $venv/lib/python3*/site-packages)/nvidia"
  $venv/bin/python -c 'import torch, torchvision, pycocotools.mask, safetensors.torch' ||
    die "the Python peers were installed, but cannot be imported"
  scripts/fetch_sg_recipes.sh $venv >/dev/null || die "the recipes of super-gradients could not be fetched"
  cp "$requirements" $venv/complete
}

# ---- check, then do what is missing --------------------------------------------------------------
if [ -r /etc/os-release ] && ! grep -q '^VERSION_ID="12"' /etc/os-release; then
  say "note: this is not Debian 12; its packages may have other names or versions"
fi
if [ $runtime = yes ]; then
  require_packages "${runtime_packages[@]}"
  say "ready to run an installed sgtrain"
  exit 0
fi
require_packages "${packages[@]}"

# The CUDA flavour holds everything of the CPU flavour.
have=$(cat "$stamp" 2>/dev/null || true)
if [ "$have" != "$revision" ] && [ "$have" != "cuda${revision#cpu}" ]; then
  unpack_libtorch
fi
[ $peers = no ] || install_peers
say "ready ($(cut -d' ' -f1 "$stamp") flavour of LibTorch 2.11.0)"
