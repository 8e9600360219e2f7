#!/bin/sh
# A step of a node image's build: quiesce, and handlers that are live at the first boot without any restart. Nothing needs to run.
#
#   build.sh ROOT [SHIM...]
#
# ROOT is the image's root file system, mounted and writable. quiesce and quiesce-installer are beside this file, or in BIN.
# Each SHIM is a file named containerd-shim-NAME-vN; its handler is NAME-vN.
set -eu
root=$1
shift
bin=${BIN:-$(dirname "$0")}

"$bin/quiesce-installer" host --root "$root"
for shim in "$@"; do
    "$bin/quiesce-installer" install --host-root "$root" --shim "$shim"
done
"$bin/quiesce-installer" status --results "$root/var/lib/quiesce/results" --inbox "$root/var/lib/quiesce/inbox"
