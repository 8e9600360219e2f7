package node

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
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
	var layers [][]byte
	if !img.Scratch {
		layer, err := k.busyboxLayer(ctx)
		if err != nil {
			return err
		}
		layers = append(layers, layer)
	}
	if len(files) > 0 {
		layer, err := filesLayer(files)
		if err != nil {
			return err
		}
		layers = append(layers, layer)
	}
	return writeLayout(file, img, layers)
}

// busyboxLayer is a file system with a static busybox and links for all its applets.
func (k *Kit) busyboxLayer(ctx context.Context) ([]byte, error) {
	busybox := path.Join(k.rootfs, "bin/busybox")
	applets, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list applets: %w", err)
	}
	var l layer
	l.open()
	for _, dir := range []string{"bin/", "etc/", "root/", "tmp/", "var/"} {
		l.add(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	l.addFile("/bin/busybox", busybox)
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			l.add(tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	passwd := []byte("root:x:0:0:root:/root:/bin/sh\n")
	l.add(tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(passwd))}, passwd)
	return l.close()
}

// filesLayer is a file system with copies of files of this machine; a file that is there more than once has links.
func filesLayer(files map[string]string) ([]byte, error) {
	var l layer
	l.open()
	first := map[string]string{}
	for _, dest := range slices.Sorted(maps.Keys(files)) {
		source := files[dest]
		if to, ok := first[source]; ok {
			l.add(tar.Header{Name: inTar(dest), Typeflag: tar.TypeLink, Linkname: inTar(to), Mode: 0o755}, nil)
			continue
		}
		first[source] = dest
		l.addFile(dest, source)
	}
	return l.close()
}

// inTar is how an archive names a path.
func inTar(dest string) string { return strings.TrimPrefix(path.Clean(dest), "/") }

// layer is a tar archive in memory that keeps its first error.
type layer struct {
	buf bytes.Buffer
	tar *tar.Writer
	err error
}

func (l *layer) open() { l.tar = tar.NewWriter(&l.buf) }

func (l *layer) add(h tar.Header, data []byte) {
	if l.err == nil {
		l.err = l.tar.WriteHeader(&h)
	}
	if l.err == nil {
		_, l.err = l.tar.Write(data)
	}
}

func (l *layer) addFile(dest, source string) {
	info, err := os.Stat(source)
	if err == nil {
		var data []byte
		if data, err = os.ReadFile(source); err == nil {
			l.add(tar.Header{
				Name: inTar(dest), Typeflag: tar.TypeReg,
				Mode: int64(info.Mode().Perm()), Size: int64(len(data)),
			}, data)
		}
	}
	if l.err == nil {
		l.err = err
	}
}

func (l *layer) close() ([]byte, error) {
	if l.err == nil {
		l.err = l.tar.Close()
	}
	if l.err != nil {
		return nil, fmt.Errorf("write layer: %w", l.err)
	}
	return l.buf.Bytes(), nil
}

// descriptor points at a blob of an OCI layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// layout is an OCI layout being written to a tar archive.
type layout struct{ layer }

// blob adds data and returns what points at it.
func (l *layout) blob(mediaType string, data []byte) descriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	l.add(tar.Header{Name: "blobs/sha256/" + sum, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data))}, data)
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(data)}
}

func (l *layout) json(mediaType string, v any) descriptor {
	data, err := json.Marshal(v)
	if l.err == nil {
		l.err = err
	}
	return l.blob(mediaType, data)
}

// writeLayout writes the OCI layout of an image with the given layers.
func writeLayout(file string, img Image, layers [][]byte) error {
	const kind = "application/vnd.oci.image."
	var l layout
	l.open()
	var blobs []descriptor
	var ids []string
	for _, data := range layers {
		d := l.blob(kind+"layer.v1.tar", data)
		blobs, ids = append(blobs, d), append(ids, d.Digest)
	}
	env := append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, img.Env...)
	config := l.json(kind+"config.v1+json", map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": map[string]any{"Entrypoint": img.Entrypoint, "Env": env, "StopSignal": img.StopSignal},
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	})
	manifest := l.json(kind+"manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": kind + "manifest.v1+json", "config": config, "layers": blobs,
	})
	manifest.Annotations = map[string]string{"io.containerd.image.name": img.Name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	if err != nil {
		return fmt.Errorf("encode index: %w", err)
	}
	version := []byte(`{"imageLayoutVersion":"1.0.0"}`)
	l.add(tar.Header{Name: "index.json", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(index))}, index)
	l.add(tar.Header{Name: "oci-layout", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(version))}, version)
	data, err := l.close()
	if err != nil {
		return err
	}
	return writeFileAtomic(file, bytes.NewReader(data), 0o644)
}

// writeFileAtomic writes beside name and renames.
func writeFileAtomic(name string, r io.Reader, mode os.FileMode) error {
	f, err := os.CreateTemp(path.Dir(name), ".tmp-")
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = io.Copy(f, r)
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
