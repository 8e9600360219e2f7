// Command provisioner does on a node what the installers of runtime-class-manager and kwasm do: it copies the shim,
// appends a table to containerd's config and sends containerd SIGHUP from its own pod.
//
//	provisioner install|uninstall -H ROOT -r NAME     env HOST_ROOT
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

const configFile = "etc/containerd/config.toml"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "provisioner:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say install or uninstall")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	root := flags.String("H", os.Getenv("HOST_ROOT"), "the node's root")
	name := flags.String("r", "", "runtime")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	s := shim{root: *root, name: *name, file: filepath.Join(*root, "opt/kwasm/bin/containerd-shim-"+*name)}
	switch args[0] {
	case "install":
		return s.install()
	case "uninstall":
		return s.uninstall()
	default:
		return fmt.Errorf("%q is neither install nor uninstall", args[0])
	}
}

type shim struct{ root, name, file string }

// table is what the config gets.
func (s shim) table() []byte {
	return fmt.Appendf(nil, "\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.%s]\nruntime_type = \"/opt/kwasm/bin/containerd-shim-%[1]s\"\n", s.name)
}

func (s shim) install() error {
	program, err := os.ReadFile("/assets/containerd-shim-" + s.name)
	if err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(s.root, configFile))
	if err != nil {
		return err
	}
	old, err := os.ReadFile(s.file)
	if err == nil && bytes.Equal(old, program) && bytes.Contains(config, s.table()) {
		fmt.Println("nothing changed, nothing to do")
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(s.file, program, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.root, configFile), append(config, s.table()...), 0o644); err != nil {
		return err
	}
	return restart()
}

func (s shim) uninstall() error {
	if err := os.Remove(s.file); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("shim %s not installed", s.name)
	} else if err != nil {
		return err
	}
	file := filepath.Join(s.root, configFile)
	config, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(config, s.table(), nil), 0o644); err != nil {
		return err
	}
	return restart()
}

// restart sends SIGHUP to every containerd; the pod shares the host's PID namespace.
func restart() error {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return err
	}
	found := false
	for _, name := range names {
		if comm, err := os.ReadFile(name); err != nil || strings.TrimSpace(string(comm)) != "containerd" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
			return fmt.Errorf("restart containerd: %w", err)
		}
		for syscall.Kill(pid, 0) == nil { // on a busy machine it would still see this program end
			runtime.Gosched()
		}
		found = true
	}
	if !found {
		return errors.New("restart containerd: no such process")
	}
	return nil
}
