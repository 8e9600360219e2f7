package pod_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quiesce/installer/internal/pod"
)

func TestInside(t *testing.T) {
	const inbox = "/no/such/quiesce/inbox"
	mount := func(root, at string) string { return "36 35 98:0 " + root + " " + at + " rw - ext4 /dev/x rw\n" }
	tests := map[string]struct {
		env, mounts string
		want        bool
	}{
		"a host's shell":                   {mounts: mount("/", "/"), want: false},
		"a file system of the stage's own": {mounts: mount("/", "/") + mount("/", "/no/such/quiesce"), want: false},
		"the inbox mounted":                {mounts: mount("/", "/") + mount("/no/such/quiesce/inbox", inbox), want: true},
		"the stage mounted":                {mounts: mount("/no/such/quiesce", "/no/such/quiesce"), want: true},
		"the kubelet's environment":        {env: "KUBERNETES_SERVICE_HOST", mounts: mount("/", "/"), want: true},
		"the manifest's environment":       {env: "POD_NAME", mounts: mount("/", "/"), want: true},
		"a line cut short":                 {mounts: "36 35\n", want: false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			env := func(k string) string { return map[bool]string{true: "x"}[k == tt.env] }
			if got := pod.Inside(env, strings.NewReader(tt.mounts), inbox); (got != "") != tt.want {
				t.Errorf("Inside: %q, want %v", got, tt.want)
			}
		})
	}
}

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	if pod.Writable(dir) {
		t.Error("a directory that is no inbox is writable")
	}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if !pod.Writable(dir) {
		t.Error("not writable")
	}
}
