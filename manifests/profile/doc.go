// Package profile knows how Kubernetes distributions keep their containerd: one small file each in data/.
//
// A profile is recognised by signs on the file system of a node, which need not run; the first in the order of the files'
// names counts, and the last, vanilla, has no sign. On a running node Find goes further: from the kubelet's CRI endpoint to
// the process behind that socket, to the unit it belongs to, its program and its command line. Both say why.
//
// Both programs use it, so it imports neither. Everything in it is a default: what the settings say counts more.
package profile
