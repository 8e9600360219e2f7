package shim

import (
	"fmt"
	"regexp"
	"strings"

	"quiesce/installer/internal/refusal"
)

var shaForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// digests are what the caller expects: of a file by its name, and under no name of what the request names.
type digests []digest

type digest struct{ name, hex string }

func parseDigests(texts []string) (digests, error) {
	var out digests
	for _, t := range texts {
		name, hex, named := strings.Cut(t, "=")
		if !named {
			name, hex = "", t
		}
		if hex = strings.ToLower(hex); !shaForm.MatchString(hex) {
			return nil, refusal.New("sha256 %q: must be 64 hex digits", hex)
		}
		out = append(out, digest{name, hex})
	}
	return out, nil
}

// whole compares the digest of an archive or a download.
func (ds digests) whole(from, got string) error {
	for _, d := range ds {
		if d.name == "" && d.hex != got {
			return mismatch(from, got, d.hex)
		}
	}
	return nil
}

func mismatch(what, got, want string) error {
	return fmt.Errorf("check %s: its sha256 is %s, expected %s; nothing was staged", what, got, want)
}

// check compares the digests of the files.
func (p *Payload) check(want digests) error {
	for _, d := range want {
		name := d.name
		if name == "" {
			if p.whole != "" {
				continue // checked before it was looked into
			}
			if len(p.Files) > 1 {
				return refusal.New("sha256 %s: of which file? Give NAME=HEX", d.hex)
			}
			name = p.Shim
		}
		got, ok := p.sumOf(name)
		if !ok {
			return refusal.New("sha256: there is no file %s", name)
		}
		if got != d.hex {
			return mismatch(name, got, d.hex)
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
