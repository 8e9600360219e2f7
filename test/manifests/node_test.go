package manifests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
	"quiesce/test/render"
)

// TestNRIConfig: the tables turn NRI on where it is off, on the containerd that each is for, and what they say of a timeout
// counts: the doctor reads it as containerd does.
func TestNRIConfig(t *testing.T) {
	for version, file := range map[string]string{"1.7.35": "nri-1.7.toml", node.DefaultContainerd: "nri-2.toml"} {
		t.Run(version, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(render.Root, "manifests/containerd", file))
			if err != nil {
				t.Fatal(err)
			}
			table := regexp.MustCompile(`(?s)\n\[plugins.*`).FindString(string(b))
			off := "\n[plugins.'io.containerd.nri.v1.nri']\n  disable = true\n"
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			n, err := node.Boot(ctx, node.Config{Name: "nri", Containerd: version, ContainerdTables: off})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			listens := func() bool {
				c, err := n.Dial(ctx, "/var/run/nri/nri.sock")
				if err != nil {
					c, err = n.Dial(ctx, "/run/nri/nri.sock")
				}
				if err == nil {
					c.Close()
				}
				return err == nil
			}
			if listens() {
				t.Fatal("NRI is on although it is turned off")
			}
			config, err := n.ReadFile("/etc/containerd/config.toml")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(config), off) {
				t.Fatalf("the node's config has no such table:\n%s", config)
			}
			on := strings.Replace(string(config), off, table, 1)
			if err := n.WriteFile("/etc/containerd/config.toml", []byte(on), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := n.RestartContainerd(ctx); err != nil {
				t.Fatal(err)
			}
			if !listens() {
				t.Errorf("NRI is not on with\n%s", on)
			}
			dump, err := n.Exec(ctx, "containerd", "config", "dump")
			if err != nil || !strings.Contains(dump, "5s") {
				t.Errorf("containerd does not know the timeout (%v):\n%s", err, dump)
			}
		})
	}
}

// TestImageRecipe: an image is built with nothing running; at its first boot the handler is live, without a restart.
func TestImageRecipe(t *testing.T) {
	ctx, l := lab.New(t, lab.Options{Name: "recipe", NoHost: true})
	build(ctx, t, l)
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := l.WaitPhase(ctx, "spin-v2", "live"); err != nil {
		t.Fatal(err)
	}
	if rt, err := l.Runtime(ctx); err != nil || rt.Restarts != 0 {
		t.Errorf("containerd was started %d times more (%v)", rt.Restarts, err)
	}
	labels, err := l.ReadFile(features)
	if err != nil || !strings.Contains(string(labels), "quiesce-handler.spin-v2=true\nquiesce-version.spin-v2=") {
		t.Errorf("labels: %v\n%s", err, labels)
	}
	pod, err := l.RunPod(ctx, lab.HandlerPod("spins", "spin-v2", "exit 0"))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := pod.Status(ctx, "main"); err != nil || s.GetExitCode() != 0 {
		t.Errorf("the pod: %+v, %v", s, err)
	}
	gone(ctx, t, l)
}

// features is what Node Feature Discovery reads.
const features = "/etc/kubernetes/node-feature-discovery/features.d/quiesce"

// build runs the recipe on a node that is off.
func build(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(render.Root, "manifests/image/build.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	root, bin := l.Path("/"), l.Path("/root/quiesce")
	recipe := filepath.Join(t.TempDir(), "build.sh")
	shim := filepath.Join(t.TempDir(), "containerd-shim-spin-v2")
	program, err := os.ReadFile(l.Path("/usr/local/bin/containerd-shim-runc-v2"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{recipe: script, shim: program} {
		if err := os.WriteFile(name, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(ctx, recipe, root, shim)
	cmd.Env = append(os.Environ(), "BIN="+bin)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "spin-v2") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// gone removes the image's last handler, and its labels go with it.
func gone(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	if _, err := l.Installer(ctx, "uninstall", "--handler", "spin-v2"); err != nil {
		t.Fatal(err)
	}
	err := l.Until(ctx, "the handler is removed", func(ctx context.Context) (bool, error) {
		rs, err := l.Results(ctx)
		return rs["spin-v2"].Phase == "removed", err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Until(ctx, "the labels are gone", func(context.Context) (bool, error) {
		_, err := l.ReadFile(features)
		return err != nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}
