#!/bin/sh
# The shared library has exactly the probes of docs/probes.md, where <sys/sdt.h> was there when it was built.
# Arguments: LIBRARY SOURCE_DIR. Environment: CC. Exit code 77: built without probes. (GNU's readelf: not every other one
# takes the notes apart.)
set -eu
export LC_ALL=C
library=$1 source_dir=$2
echo '#include <sys/sdt.h>' | "${CC:-gcc}" -E - >/dev/null 2>&1 || {
    echo "probes_test: no <sys/sdt.h> here (systemtap-sdt-dev)"
    exit 77
}
found=$(readelf -n -W "$library" | sed -n '/Provider: tslab/{n;s/.*Name: //p}' | sort -u)
documented=$(sed -n 's/^| `\([a-z]*__[a-z]*\)` .*/\1/p' "$source_dir/docs/probes.md" | sort -u)
[ -n "$documented" ] && [ "$found" = "$documented" ] || {
    echo "probes_test: in the library: $(echo $found); in docs/probes.md: $(echo $documented)" >&2
    exit 1
}
echo "probes_test: $(echo "$found" | wc -l) probes"
