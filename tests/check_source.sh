#!/usr/bin/env bash
# Rules a reviewer would otherwise repeat, each a titled grep. Run from the root; also part of `make test`.
set -u
failed=0
rule() {  # title, pattern, paths... : no line may match
  local title=$1 pattern=$2; shift 2
  local hits
  hits=$(grep -nE --include='*.cpp' --include='*.hpp' --include='*.inl' --include='*.cu' --include='*.cuh' -r "$pattern" "$@" 2>/dev/null)
  if [ -n "$hits" ]; then echo "RULE: $title"; echo "$hits"; failed=1; fi
}
rule "dnnl only under kernels/onednn"          '#include <(oneapi/dnnl/)?dnnl'   src layers io mpi kernels/reference kernels/cpu kernels/*.?pp
rule "only operations.hpp of kernels/onednn is seen outside" '#include "kernels/onednn/[^o]' src layers io mpi kernels/reference kernels/cpu kernels/*.?pp
rule "CUDA only under kernels/cuda, mpi/nccl*" '#include <(cuda|cudnn|cublas|nccl)' src layers io kernels/reference kernels/cpu kernels/onednn kernels/*.?pp mpi/[a-mo-z]*
rule "src sees of the CUDA module its entrance" '#include "kernels/cuda/[^m]'    src layers io kernels/reference kernels/cpu kernels/onednn kernels/*.?pp mpi/[a-mo-z]*
rule "mpi.h only under mpi and io"             '#include <mpi\.h>'               src layers kernels
rule "hdf5.h only under io"                    '#include <hdf5'                  src layers kernels mpi
rule "kernels include kernels only"            '#include "(layers|src|io|mpi)/'  kernels
rule "layers include kernels and layers only"  '#include "(src|io|mpi)/'         layers
rule "mpi includes plain kernel headers only" '#include "(layers|src|io)/'      mpi
rule "io includes mpi and kernels only"        '#include "(layers|src)/'         io
rule "mpi and io use plain kernel headers only" '#include "kernels/(backend|formulas|reference|cpu|onednn)' mpi io
rule "ONNX only in src/export/onnx.cpp"        '#include <(onnx|google)/'       layers io mpi kernels src/[a-df-z]* src/export/[a-np-z]* src/export/*.hpp
rule "exit only in main"                       '(^|[^.[:alnum:]_])(std::)?(exit|_exit|quick_exit)\(' layers io mpi kernels src/[a-ln-z]* src/method
rule "no printing outside src"                 'std::c(out|err)|printf\('        layers io mpi kernels
rule "no assert with side effects (use MRMF_CHECK)" '\bassert\('                 src layers io mpi kernels
rule "no owning raw new or delete"             '(^|[^_[:alnum:]"])(new [A-Z]|delete )' src layers io mpi kernels
rooms=  # those of src so far; io, mpi, layers and kernels are everyone's
for room in config plan system data inspection run training rank_planner export method tournament inference compare bench simulators ensemble cli; do
  rooms+="${rooms:+|}$room"
  case $room in compare) may='config|plan|run|compare' ;; simulators) may='system|simulators' ;; *) may=$rooms ;; esac
  hits=$(grep -nE -r '#include "|#include <src/' "src/$room" | grep -vE "#include \"((io|mpi|layers|kernels|generated)/|src/($may)/)")
  if [ -n "$hits" ]; then echo "RULE: src/$room includes of src only ${may//|/, }"; echo "$hits"; failed=1; fi
done
hits=$(find src -mindepth 1 -maxdepth 1 -type d | grep -vE "^src/($rooms)$")
if [ -n "$hits" ]; then echo "RULE: every folder of src has its place in the order of rooms"; echo "$hits"; failed=1; fi
writers='ofstream|\bfopen\(|O_WRONLY|O_RDWR|O_CREAT|H5Fcreate|remove_all\(|(fs|filesystem)::rename|std::rename\('
hits=$(grep -nE --include='*.?pp' --include='*.cu*' -r "$writers" src layers io mpi kernels |
  grep -vE '^io/(files/output_file|files/work_folder|hdf5/driver_and_copy|hdf5/output)\.cpp:|"/dev/null"')  # the second is for other programs' files; the last two make HDF5 files through the first
if [ -n "$hits" ]; then echo "RULE: files are opened for writing by io/files/output_file.cpp alone"; echo "$hits"; failed=1; fi
prose=$(git ls-files 'src/*.hpp' 'layers/*.hpp' 'kernels/*.hpp' 'io/*.hpp' 'mpi/*.hpp' | xargs awk '
  FNR == 1 { told = "" } /^#include/ { told = "included"; next } /^\/\// && told != "" { told = FILENAME ":" FNR; next }
  /^namespace/ && told ~ /:/ { print told } !/^$/ { told = "" }')
if [ -n "$prose" ]; then echo "RULE: what is told of a part stands inside the namespace, at its beginning"; echo "$prose"; failed=1; fi
long=$(git ls-files src layers kernels io mpi | while read -r file; do
  [ "$(wc -l <"$file")" -le 500 ] || grep -qF "| \`$file\` |" docs/architecture.md || echo "$file"
done)
if [ -n "$long" ]; then
  echo "RULE: a file of more than 500 lines is one concept, and docs/architecture.md says which"; echo "$long"; failed=1
fi
tall=$(git ls-files src layers kernels io mpi | grep -E '\.(cpp|hpp|inl|cu|cuh)$' | xargs awk '
  FNR == 1 { start = 0 } /^[A-Za-z_].*\{$/ && !/^(namespace|class|struct|enum|union|extern)/ { start = FNR; name = $0 }
  /^\}/ { if (start && FNR - start + 1 > 60) print FILENAME ":" start ": " FNR - start + 1 " lines: " name; start = 0 }')
if [ -n "$tall" ]; then echo "RULE: a function has at most 60 lines"; echo "$tall"; failed=1; fi
selves=$(git ls-files src layers kernels io mpi | grep -E '\.(cpp|hpp|inl|cu|cuh)$' | while read -r file; do
  grep -nE "//.*(^|[^[:alnum:]_/])($file|${file##*/})\b" "$file" | sed "s|^|$file:|"
done)
if [ -n "$selves" ]; then echo "RULE: no comment sends the reader to the file that it stands in"; echo "$selves"; failed=1; fi
torn=$(git ls-files '*.cpp' '*.hpp' '*.inl' | xargs awk '
  FNR == 1 { before = between = "" } between != "" && /^ *"/ { print between }
  { between = before ~ /"$/ && /^ *"[^"\\]{1,24}"$/ ? FILENAME ":" FNR ": " $0 : ""; before = $0 }')
if [ -n "$torn" ]; then echo "RULE: a sentence in the code has no line for a word"; echo "$torn"; failed=1; fi
broken=$(git ls-files -s | while read -r mode _ _ file; do
  case $file in *.typed) continue ;; esac
  [ -s "$file" ] || echo "$file is empty"
  [ "$mode" != 100755 ] || [ "$(head -c 2 "$file")" = "#!" ] || echo "$file is to be run, but does not begin with #!"
  case $file in *.sh) bash -n "$file" 2>&1 ;; esac
done)
if [ -n "$broken" ]; then echo "RULE: no file is empty, and scripts can be run"; echo "$broken"; failed=1; fi
strange=$(git ls-files | cut -d/ -f1 | sort -u | grep -vxE '\.(ci|clang-format|clang-tidy|gitignore|shellcheckrc)|CHANGELOG\.md|CITATION\.cff|CMakeLists\.txt|Makefile|README\.md|VERSION|docs|io|jobs|kernels|layers|mpi|src|tests')
if [ -n "$strange" ]; then echo "RULE: no other file or folder stands at the top, such as a run's"; echo "$strange"; failed=1; fi
PLANT=only tests/mutants.sh || { echo "RULE: every bug of tests/mutants.txt can be planted"; failed=1; }
python3 tests/check_types.py || failed=1
python3 tests/check_docs.py || failed=1
python3 tests/check_walks.py || failed=1
[ $failed -eq 0 ] && echo "source rules: all hold"
exit $failed
