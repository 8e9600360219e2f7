package manifests

import _ "embed" // for the text

//go:embed systemd/cri-containerd-.scope.d/50-quiesce.conf
var scope []byte

// ScopeDropIn is where the drop-in for the scopes of containers goes, below /etc/systemd/system, and its text.
func ScopeDropIn() (name string, text []byte) {
	return "cri-containerd-.scope.d/50-quiesce.conf", scope
}
