// Package render shows what a cluster would get from manifests/, by way of the program test/tools/render.
package render

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Root is the repository, seen from the directory of a package two levels below it.
const Root = "../.."

// Object is a rendered object: its common fields, and all of it.
type Object struct {
	Kind     string
	Metadata struct{ Namespace, Name string }
	All      map[string]any
}

func (o Object) String() string { return o.Kind + " " + o.Metadata.Name }

// Objects runs the program; path is relative to manifests/.
func Objects(ctx context.Context, verb, path string, more ...string) ([]Object, error) {
	out, err := Run(ctx, verb, append([]string{filepath.Join(Root, "manifests", path)}, more...)...)
	if err != nil {
		return nil, err
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("read what %s makes of %s: %w", verb, path, err)
	}
	var all []Object
	for _, r := range raw {
		var o Object
		if err := json.Unmarshal(r, &o); err != nil {
			return nil, fmt.Errorf("read object: %w", err)
		}
		if err := json.Unmarshal(r, &o.All); err != nil {
			return nil, fmt.Errorf("read object: %w", err)
		}
		all = append(all, o)
	}
	return all, nil
}

// Into reads an object as a type.
func (o Object) Into(v any) error {
	b, err := json.Marshal(o.All)
	if err != nil {
		return fmt.Errorf("read %s: %w", o, err)
	}
	return json.Unmarshal(b, v)
}

// Run runs the program with a path; the go command keeps it built.
func Run(ctx context.Context, verb string, args ...string) ([]byte, error) {
	for i, a := range args {
		if _, err := os.Stat(a); err == nil {
			if args[i], err = filepath.Abs(a); err != nil {
				return nil, fmt.Errorf("find %s: %w", a, err)
			}
		}
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", ".", verb}, args...)...)
	cmd.Dir = filepath.Join(Root, "test", "tools", "render")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("render %s: %w: %s", verb, err, errs.String())
	}
	return out, nil
}
