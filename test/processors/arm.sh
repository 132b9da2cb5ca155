#!/usr/bin/env bash
# Puts Python for 64-bit Arm with numpy and onnxruntime into FOLDER, from Debian's and PyPI's packages, which nothing installs.
# `FOLDER/python PROCESSOR FILE ...` runs it in qemu's user mode.
set -euo pipefail
folder=$(realpath -m "$1")
python=$(python3 -c 'import sys; print("3.%d" % sys.version_info.minor)')
mkdir -p "$folder"/{lists/partial,packages,wheels,site,system}

apt=(apt-get -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
    -o Dir::State::Lists="$folder/lists" -o Dir::State::status=/dev/null)
"${apt[@]}" update >/dev/null
(
    cd "$folder/packages"
    "${apt[@]}" download "python$python-minimal" "libpython$python-minimal" "libpython$python-stdlib" libc6 libgcc-s1 libstdc++6 \
        zlib1g libexpat1 libffi8 libssl3 libsqlite3-0 libbz2-1.0 liblzma5 libuuid1 >/dev/null
)
for package in "$folder"/packages/*.deb; do dpkg-deb --extract "$package" "$folder/system"; done

platforms=()
for version in 2_17 2_26 2_27 2_28; do platforms+=(--platform "manylinux_${version}_aarch64"); done
python3 -m pip download --quiet --no-deps --only-binary=:all: --implementation cp --python-version "$python" \
    --abi "cp${python/./}" --abi abi3 --abi none "${platforms[@]}" --dest "$folder/wheels" \
    numpy onnxruntime protobuf flatbuffers packaging sympy mpmath
for wheel in "$folder"/wheels/*.whl; do python3 -m zipfile --extract "$wheel" "$folder/site"; done

# onnxruntime asks the kernel for the processors, and ends without an answer
cpus=$folder/system/sys/devices/system/cpu
mkdir -p "$cpus/cpu0" "$folder/system/proc"
for file in kernel_max online possible present; do echo 0 >"$cpus/$file"; done
printf '%s\t: %s\n' processor 0 Features 'fp asimd crc32 cpuid' 'CPU implementer' 0x41 'CPU architecture' 8 'CPU part' 0xd07 \
    >"$folder/system/proc/cpuinfo"

cat >"$folder/python.new" <<TEXT
#!/usr/bin/env bash
export PYTHONHOME=$folder/system/usr PYTHONPATH=$folder/site PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
exec env -u LD_LIBRARY_PATH qemu-aarch64 -cpu "\$1" -L $folder/system $folder/system/usr/bin/python$python "\${@:2}"
TEXT
chmod +x "$folder/python.new"
"$folder/python.new" max -c 'import onnxruntime'
mv "$folder/python.new" "$folder/python"
