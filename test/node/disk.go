package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// buildDisk makes the node's file system: the cached root file system, above it a layer of programs and units,
// above that what the node writes. containerd's and the kubelet's data lie beside it, because overlayfs cannot sit on overlayfs.
func (n *Node) buildDisk(ctx context.Context) error {
	at := func(name string) string { return filepath.Join(n.dir, name) }
	for _, name := range []string{"layer", "upper", "work", "rootfs", "containerd", "kubelet"} {
		if err := os.MkdirAll(at(name), 0o755); err != nil {
			return fmt.Errorf("create disk: %w", err)
		}
	}
	if err := n.fillLayer(ctx, at("layer")); err != nil {
		return err
	}
	if err := mountOverlay(at("rootfs"), at("upper"), at("work"), at("layer"), n.kit.rootfs); err != nil {
		return err
	}
	for _, name := range []string{"containerd", "kubelet"} {
		if err := mountBind(at(name), at("rootfs/var/lib/"+name)); err != nil {
			return err
		}
	}
	if err := n.makeDisks(ctx); err != nil {
		return err
	}
	if err := n.configure(ctx); err != nil || n.cfg.Image == nil {
		return err
	}
	return n.cfg.Image(at("rootfs"))
}

// fillLayer puts tools, programs, images and units into the middle layer.
func (n *Node) fillLayer(ctx context.Context, layer string) error {
	if err := copyBase(layer); err != nil {
		return err
	}
	if n.cfg.unit() != defaultUnit {
		if err := os.Remove(filepath.Join(layer, "etc/systemd/system", defaultUnit)); err != nil {
			return fmt.Errorf("create disk: %w", err)
		}
	}
	containerd, err := containerdTool(n.cfg.version())
	if err != nil {
		return err
	}
	for _, t := range []tool{containerd, crictlTool()} {
		dir, err := n.kit.tool(ctx, t)
		if err != nil {
			return err
		}
		for _, name := range t.programs() {
			if err := placeFile(filepath.Join(dir, name), filepath.Join(layer, "usr/local/bin", name)); err != nil {
				return err
			}
		}
	}
	for dest, file := range n.cfg.Tools {
		if err := placeFile(file, filepath.Join(layer, dest)); err != nil {
			return err
		}
	}
	for pkg, dest := range n.cfg.Programs {
		file, err := n.kit.program(ctx, pkg, n.cfg.Build...)
		if err != nil {
			return err
		}
		if err := placeFile(file, filepath.Join(layer, dest)); err != nil {
			return err
		}
	}
	return n.addImages(ctx, filepath.Join(layer, imageDir))
}

// imageDir holds the images to import at the first boot.
const imageDir = "/usr/local/share/images"

func (n *Node) addImages(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create image directory: %w", err)
	}
	for i, img := range append(baseImages(), n.cfg.Images...) {
		if err := n.kit.writeImage(ctx, filepath.Join(dir, fmt.Sprintf("%02d.tar", i)), img); err != nil {
			return fmt.Errorf("make image %s: %w", img.Name, err)
		}
	}
	return nil
}

// copyBase copies the embedded files and masks units.
func copyBase(layer string) error {
	sub, err := fs.Sub(base, "base")
	if err != nil {
		return fmt.Errorf("open base files: %w", err)
	}
	if err := os.CopyFS(layer, sub); err != nil {
		return fmt.Errorf("copy base files: %w", err)
	}
	for _, unit := range maskedUnits() {
		if err := os.Symlink("/dev/null", filepath.Join(layer, "etc/systemd/system", unit)); err != nil {
			return fmt.Errorf("mask unit: %w", err)
		}
	}
	return nil
}

// placeFile links source to dest, or copies it when dest is on another file system. A node that writes to it
// writes to its own copy in the upper layer.
func placeFile(source, dest string) error {
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return fmt.Errorf("place file: %w", err)
	}
	err := os.Link(source, dest)
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EPERM) {
		return err
	}
	f, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("place file: %w", err)
	}
	defer func() { _ = f.Close() }()
	return writeFileAtomic(dest, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	}, 0o755)
}

// configure writes what differs from node to node, and enables units.
func (n *Node) configure(ctx context.Context) error {
	config, err := n.cfg.containerdConfig()
	if err != nil {
		return err
	}
	files := map[string]File{
		"/etc/machine-id":             {Content: machineID() + "\n"},
		"/etc/hostname":               {Content: n.ID + "\n"},
		"/etc/hosts":                  {Content: "127.0.0.1 localhost\n10.99.0.1 " + n.ID + "\n"},
		"/etc/resolv.conf":            {},
		"/etc/containerd/config.toml": {Content: config},
		"/etc/crictl.yaml":            {Content: "runtime-endpoint: unix://" + n.cfg.socket() + "\nimage-endpoint: unix://" + n.cfg.socket() + "\ntimeout: 10\n"},
	}
	if n.cfg.NoConfig {
		delete(files, "/etc/containerd/config.toml")
	}
	if err := n.writeFiles(files); err != nil {
		return err
	}
	if err := n.writeFiles(n.cfg.Files); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(n.dir, "rootfs/var/log/journal"), 0o755); err != nil {
		return fmt.Errorf("create journal directory: %w", err)
	}
	units := append([]string{"enable", "--quiet", "node-network.service", n.cfg.unit()}, n.cfg.Enable...)
	return run(n.chroot(ctx, append([]string{"systemctl"}, units...)...))
}

func (n *Node) writeFiles(files map[string]File) error {
	for name, file := range files {
		var content io.Reader = strings.NewReader(file.Content)
		if file.Host != "" {
			f, err := os.Open(file.Host)
			if err != nil {
				return fmt.Errorf("read file: %w", err)
			}
			defer func() { _ = f.Close() }()
			content = f
		}
		mode := file.Mode
		if mode == 0 {
			mode = 0o644
		}
		if err := n.write(path.Clean(name), content, mode); err != nil {
			return err
		}
	}
	return nil
}

// chroot is a command in the node's file system but outside its namespaces, which works while it is off.
func (n *Node) chroot(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/usr/bin/"+argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: filepath.Join(n.dir, "rootfs")}
	cmd.Dir, cmd.Env = "/", nodeEnv()
	return cmd
}

// machineID is a fresh machine id.
func machineID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return fmt.Sprintf("%x", id)
}
