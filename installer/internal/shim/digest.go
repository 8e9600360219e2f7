package shim

import (
	"fmt"
	"regexp"
	"strings"

	"quiesce/installer/internal/refusal"
)

var shaForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Check compares the digests with what the caller expects: HEX for a single file, NAME=HEX otherwise.
func (p *Payload) Check(expected []string) error {
	for _, e := range expected {
		name, hex, named := strings.Cut(e, "=")
		if !named {
			name, hex = p.Shim, e
			if len(p.Files) > 1 {
				return refusal.New("sha256 %s: of which file? Give NAME=HEX", e)
			}
		}
		if hex = strings.ToLower(hex); !shaForm.MatchString(hex) {
			return refusal.New("sha256 %q: must be 64 hex digits", hex)
		}
		got, ok := p.sumOf(name)
		if !ok {
			return refusal.New("sha256: there is no file %s", name)
		}
		if got != hex {
			return fmt.Errorf("check %s: its sha256 is %s, expected %s; nothing was staged", name, got, hex)
		}
	}
	return nil
}

func (p *Payload) sumOf(name string) (string, bool) {
	for _, f := range p.Files {
		if f.Name == name {
			return f.SHA256, true
		}
	}
	return "", false
}
