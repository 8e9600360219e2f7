package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// root is where containerd's config is in a jail.
const root = "/etc/containerd/config.toml"

// handler is a runtime handler as it is asked for.
type handler struct {
	Name     string
	Type     string
	Options  map[string]any
	Settings map[string]any
}

// jail is a root file system of its own with one containerd and the editor, so that configs may name any path.
type jail struct {
	dir    string
	editor *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
}

// newJail fills a directory; nothing of it runs yet.
func newJail(dir, containerd, editor string) (*jail, error) {
	for _, d := range []string{"bin", "tmp", "dev"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(place(containerd, filepath.Join(dir, "bin/containerd")), place(editor, filepath.Join(dir, "bin/editor"))); err != nil {
		return nil, err
	}
	if err := syscall.Mknod(filepath.Join(dir, "dev/null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil { // null(4)
		return nil, fmt.Errorf("make /dev/null: %w", err)
	}
	return &jail{dir: dir}, nil
}

// start starts the editor, once it is sure that the programs run.
func (j *jail) start(ctx context.Context) (err error) {
	if out, err := j.command(ctx, "/bin/containerd", "--version").CombinedOutput(); err != nil {
		return fmt.Errorf("run containerd in the jail: %w: %s", err, out)
	}
	j.editor = j.command(ctx, "/bin/editor", "/stage")
	j.editor.Stderr = os.Stderr
	if j.in, err = j.editor.StdinPipe(); err != nil {
		return err
	}
	out, err := j.editor.StdoutPipe()
	if err != nil {
		return err
	}
	j.out = bufio.NewReader(out)
	return j.editor.Start()
}

// place links a program into a jail, or copies it over a border of file systems.
func place(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (j *jail) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Path = name
	cmd.Err = nil // it is looked for in the jail
	cmd.Dir, cmd.Env = "/", []string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: j.dir, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (j *jail) close() error {
	return errors.Join(j.in.Close(), j.editor.Wait(), os.RemoveAll(j.dir))
}

// reset makes the jail new, with one config.
func (j *jail) reset(config []byte) error {
	list, err := os.ReadDir(j.dir)
	if err != nil {
		return err
	}
	for _, item := range list {
		switch item.Name() {
		case "bin", "tmp", "dev":
		default:
			if err := os.RemoveAll(filepath.Join(j.dir, item.Name())); err != nil {
				return err
			}
		}
	}
	path := filepath.Join(j.dir, root)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, config, 0o640)
}

// edit has the product make want all of its handlers; refusal is its word against it.
func (j *jail) edit(want []handler, gone []string) (refusal string, err error) {
	b, err := json.Marshal(map[string]any{"root": root, "binary": "/bin/containerd", "want": want, "gone": gone})
	if err != nil {
		return "", err
	}
	if _, err := j.in.Write(append(b, '\n')); err != nil {
		return "", fmt.Errorf("ask editor: %w", err)
	}
	line, err := j.out.ReadBytes('\n')
	if err != nil {
		return "", fmt.Errorf("ask editor: %w", err)
	}
	var answer struct{ Error string }
	err = json.Unmarshal(line, &answer)
	return answer.Error, err
}

// files are all files of the jail, but for those of tests and of the stage.
func (j *jail) files() (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(j.dir, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, j.dir+"/")
		switch {
		case err != nil:
			return err
		case rel == "bin" || rel == "stage" || rel == "tmp" || rel == "dev":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		data, err := os.ReadFile(path)
		files[rel] = string(data)
		return err
	})
	return files, err
}
