package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"quiesce/plugin/stage"
)

// faultFile is where apply's unit says why it failed: systemd tells the daemon only that it did.
func (c *Config) faultFile() string { return filepath.Join(c.RunDir, "fault") }

// maxFault is how much of a reason is kept, in bytes.
const maxFault = 2000

// tellFault leaves the reason for the daemon; nil takes an older one away.
func tellFault(cfg Config, fault error) error {
	tree, err := stage.OpenTree(cfg.RunDir)
	if err != nil {
		return fmt.Errorf("tell the daemon: %w", err)
	}
	defer tree.Close()
	name := filepath.Base(cfg.faultFile())
	if fault == nil {
		return tree.Remove(name)
	}
	text := fault.Error()
	return tree.WriteBytes(name, []byte(text[:min(len(text), maxFault)]), stage.Attr{Mode: 0o600})
}

// toldFault is why apply's unit failed: what it said itself, or else what systemd says.
func toldFault(cfg Config, said error) error {
	tree, err := stage.OpenTree(cfg.RunDir)
	if err != nil {
		return said
	}
	defer tree.Close()
	name := filepath.Base(cfg.faultFile())
	b, err := tree.Read(name, 2*maxFault)
	if err != nil || len(b) == 0 {
		return said
	}
	return errors.Join(errors.New(string(b)), tree.Remove(name))
}
