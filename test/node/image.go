package node

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
)

// Names of the images that every node has.
const (
	BusyboxImage = "localhost/busybox:1"
	PauseImage   = "localhost/pause:1"
)

// Image is a container image to make on this machine and import into a node at its first boot.
type Image struct {
	Name       string            // such as localhost/installer:1
	Files      map[string]string // path in the image → file on this machine; modes are kept
	Programs   map[string]string // path in the image → main package of the module under test
	Build      []string          // arguments of go build for Programs
	Entrypoint []string
	Env        []string
	StopSignal string // such as SIGUSR1
	Scratch    bool   // without busybox below Files
}

// baseImages are the images of every node.
func baseImages() []Image {
	return []Image{
		{Name: BusyboxImage},
		{Name: PauseImage, Scratch: true, Programs: map[string]string{"/pause": "./test/node/pause"}, Entrypoint: []string{"/pause"}},
	}
}

// writeImage writes img as an OCI layout in a tar file.
func (k *Kit) writeImage(ctx context.Context, file string, img Image) error {
	files := maps.Clone(img.Files)
	if files == nil {
		files = map[string]string{}
	}
	for dest, pkg := range img.Programs {
		program, err := k.program(ctx, pkg, img.Build...)
		if err != nil {
			return err
		}
		files[dest] = program
	}
	var layers []blob
	defer func() {
		for _, l := range layers {
			_ = l.data.Close()
		}
	}()
	if !img.Scratch {
		layer, err := k.busyboxLayer(ctx, path.Dir(file))
		if err != nil {
			return err
		}
		layers = append(layers, layer)
	}
	if len(files) > 0 {
		layer, err := filesLayer(path.Dir(file), files)
		if err != nil {
			return err
		}
		layers = append(layers, layer)
	}
	return writeFileAtomic(file, func(w io.Writer) error { return writeLayout(w, img, layers) }, 0o644)
}

// busyboxLayer is a file system with a static busybox and links for all its applets.
func (k *Kit) busyboxLayer(ctx context.Context, dir string) (blob, error) {
	busybox := path.Join(k.rootfs, "bin/busybox")
	applets, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return blob{}, fmt.Errorf("list applets: %w", err)
	}
	return writeLayer(dir, func(a *archive) {
		for _, dir := range []string{"bin/", "etc/", "root/", "tmp/", "var/"} {
			a.add(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
		}
		a.addFile("/bin/busybox", busybox)
		for applet := range strings.FieldsSeq(string(applets)) {
			if applet != "busybox" {
				a.add(tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, nil)
			}
		}
		a.addBytes("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\n"))
	})
}

// filesLayer is a file system with copies of files of this machine; a file that is there more than once has links.
func filesLayer(dir string, files map[string]string) (blob, error) {
	return writeLayer(dir, func(a *archive) {
		first := map[string]string{}
		for _, dest := range slices.Sorted(maps.Keys(files)) {
			source := files[dest]
			if to, ok := first[source]; ok {
				a.add(tar.Header{Name: inTar(dest), Typeflag: tar.TypeLink, Linkname: inTar(to), Mode: 0o755}, nil)
				continue
			}
			first[source] = dest
			a.addFile(dest, source)
		}
	})
}

// inTar is how an archive names a path.
func inTar(dest string) string { return strings.TrimPrefix(path.Clean(dest), "/") }

// archive is a tar archive that keeps its first error. Images are large and several nodes are made at once, so nothing of
// them is held in memory.
type archive struct {
	tar *tar.Writer
	err error
}

// add adds an entry with what is read from r, which h gives the size of.
func (a *archive) add(h tar.Header, r io.Reader) {
	if a.err == nil {
		a.err = a.tar.WriteHeader(&h)
	}
	if a.err == nil && r != nil {
		_, a.err = io.CopyN(a.tar, r, h.Size)
	}
}

// addBytes adds a file.
func (a *archive) addBytes(name string, data []byte) {
	a.add(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data))}, bytes.NewReader(data))
}

// addFile adds a copy of a file of this machine.
func (a *archive) addFile(dest, source string) {
	f, err := os.Open(source)
	if err == nil {
		defer func() { _ = f.Close() }()
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			a.add(tar.Header{Name: inTar(dest), Typeflag: tar.TypeReg, Mode: int64(info.Mode().Perm()), Size: info.Size()}, f)
		}
	}
	if a.err == nil {
		a.err = err
	}
}

func (a *archive) close() error {
	if a.err == nil {
		a.err = a.tar.Close()
	}
	if a.err != nil {
		return fmt.Errorf("write archive: %w", a.err)
	}
	return nil
}

// blob is content of an OCI layout.
type blob struct {
	data   *os.File // at its start, without a name
	digest string   // in hexadecimal
	size   int64
}

// writeLayer makes a layer in a file of dir. The caller closes it.
func writeLayer(dir string, fill func(*archive)) (b blob, err error) {
	f, err := os.CreateTemp(dir, ".layer-")
	if err != nil {
		return b, fmt.Errorf("create layer: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return b, fmt.Errorf("create layer: %w", err)
	}
	sum := sha256.New()
	a := &archive{tar: tar.NewWriter(io.MultiWriter(f, sum))}
	fill(a)
	if err := a.close(); err != nil {
		return b, err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return blob{f, hex.EncodeToString(sum.Sum(nil)), size}, err
}

// descriptor points at a blob of an OCI layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// blobs is where a layout keeps its blobs.
const blobs = "blobs/sha256/"

// json adds v as a blob.
func (a *archive) json(mediaType string, v any) descriptor {
	data, err := json.Marshal(v)
	if a.err == nil {
		a.err = err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	a.addBytes(blobs+sum, data)
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: int64(len(data))}
}

// writeLayout writes the OCI layout of an image with the given layers.
func writeLayout(w io.Writer, img Image, layers []blob) error {
	const kind = "application/vnd.oci.image."
	a := &archive{tar: tar.NewWriter(w)}
	var list []descriptor
	var ids []string
	for _, l := range layers {
		a.add(tar.Header{Name: blobs + l.digest, Typeflag: tar.TypeReg, Mode: 0o644, Size: l.size}, l.data)
		d := descriptor{MediaType: kind + "layer.v1.tar", Digest: "sha256:" + l.digest, Size: l.size}
		list, ids = append(list, d), append(ids, d.Digest)
	}
	env := append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, img.Env...)
	config := a.json(kind+"config.v1+json", map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": map[string]any{"Entrypoint": img.Entrypoint, "Env": env, "StopSignal": img.StopSignal},
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	})
	manifest := a.json(kind+"manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": kind + "manifest.v1+json", "config": config, "layers": list,
	})
	manifest.Annotations = map[string]string{"io.containerd.image.name": img.Name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	if a.err == nil {
		a.err = err
	}
	a.addBytes("index.json", index)
	a.addBytes("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return a.close()
}

// writeFileAtomic writes beside name and renames.
func writeFileAtomic(name string, write func(io.Writer) error, mode os.FileMode) error {
	f, err := os.CreateTemp(path.Dir(name), ".tmp-")
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = write(f)
	if err == nil {
		err = f.Chmod(mode)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
