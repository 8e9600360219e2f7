package image

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quiesce/test/node"
	"quiesce/test/render"
)

// builder is a buildah of its own, whose images are gone with the test. What it compiled stays in the user's cache.
type builder struct {
	*testing.T
	ctx  context.Context
	dir  string
	env  []string
	goes []string // where the build finds Go and the modules
}

// base is what the Dockerfile's first stage needs of the image golang, whose Go is mounted.
const base = "FROM scratch\nCOPY bin /bin\nCOPY tmp /tmp\nENV PATH=/usr/local/go/bin:/bin\n"

// newBuilder makes one for images of an architecture. buildah before 1.30 looks for the first stage's base under the target's
// architecture whatever the Dockerfile says, so that is what the base is said to be of.
func newBuilder(ctx context.Context, t *testing.T, arch string) *builder {
	t.Helper()
	for file, pkg := range map[string]string{"/usr/bin/buildah": "buildah", "/bin/busybox": "busybox-static"} {
		if err := node.InstallPackages(ctx, file, pkg); err != nil {
			t.Fatal(err)
		}
	}
	tmp := filepath.Join(cacheDir(t), "buildah")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	b := &builder{T: t, ctx: ctx, dir: t.TempDir(), env: append(os.Environ(), "TMPDIR="+tmp)}
	b.goes = []string{
		"--volume", b.goEnv("GOROOT") + ":/usr/local/go:ro",
		"--volume", filepath.Join(b.goEnv("GOMODCACHE"), "cache/download") + ":/proxy:ro",
		"--build-arg", "GO_IMAGE=localhost/golang", "--build-arg", "GOPROXY=file:///proxy",
	}
	context := filepath.Join(b.dir, "base")
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(filepath.Join(context, "bin"), 0o755), os.MkdirAll(filepath.Join(context, "tmp"), 0o755),
		os.WriteFile(filepath.Join(context, "bin/busybox"), busybox, 0o755), os.Symlink("busybox", filepath.Join(context, "bin/sh")),
		os.WriteFile(filepath.Join(context, "Dockerfile"), []byte(base), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b.buildah("bud", "--isolation", "chroot", "-q", "--platform", "linux/"+arch, "-t", "localhost/golang", context)
	return b
}

func cacheDir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("QUIESCE_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "quiesce")
}

func (b *builder) goEnv(name string) string {
	out, err := exec.CommandContext(b.ctx, "go", "env", name).Output()
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (b *builder) buildah(verb string, args ...string) {
	b.Helper()
	all := append([]string{"--root", filepath.Join(b.dir, "root"), "--runroot", filepath.Join(b.dir, "run"), "--storage-driver", "vfs", verb}, args...)
	cmd := exec.CommandContext(b.ctx, "buildah", all...)
	cmd.Env = b.env
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("buildah %s: %v\n%s", verb, err, out)
	}
}

// image builds a target of the Dockerfile and returns the archive.
func (b *builder) image(target, name, version, arch string) string {
	b.Helper()
	args := append([]string{"--isolation", "chroot", "--pull-never", "--platform", "linux/" + arch, "--target", target, "-t", name, "--build-arg", "VERSION=" + version}, b.goes...)
	b.buildah("bud", append(args, render.Root)...)
	archive := filepath.Join(b.dir, target+"-"+version+"-"+arch+".tar")
	b.buildah("push", "-q", name, "oci-archive:"+archive+":"+name)
	return archive
}

// derive makes the image of somebody's installer: the installer's, and a shim.
func (b *builder) derive() string {
	b.Helper()
	kit, err := node.Prepare(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	tools, err := kit.Tools(b.ctx, node.DefaultContainerd)
	if err != nil {
		b.Fatal(err)
	}
	context := filepath.Join(b.dir, "derived")
	text := "FROM localhost/quiesce-installer-base:v1\nCOPY containerd-shim-runc-v2 /assets/containerd-shim-" + shim + "\n"
	if err := os.MkdirAll(context, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(context, "Dockerfile"), []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(tools, "containerd-shim-runc-v2"))
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(context, "containerd-shim-runc-v2"), program, 0o755); err != nil {
		b.Fatal(err)
	}
	b.buildah("bud", "--isolation", "chroot", "--pull-never", "-t", "localhost/quiesce-installer:v1", context)
	archive := filepath.Join(b.dir, "derived.tar")
	b.buildah("push", "-q", "localhost/quiesce-installer:v1", "oci-archive:"+archive+":localhost/quiesce-installer:v1")
	return archive
}
