package main

import (
	"context"
	"fmt"
	"maps"
)

// verdict is what came of a cell.
type verdict string

const (
	added    verdict = "added"    // containerd has exactly the handlers that were asked for besides what it had
	restored verdict = "restored" // every byte is as it was
	refused  verdict = "refused"  // with a reason, and nothing was touched
	missed   verdict = "missed"   // anything else, whatever was said
)

// operations are what is done to each config on each containerd.
var operations = []string{"add 1", "add 3", "change", "remove"}

var (
	one     = handler{Name: "matrix-one", Type: "io.containerd.spin.v2"}
	two     = handler{Name: "matrix-two", Type: "/opt/kata/bin/containerd-shim-kata-v2", Options: map[string]any{"ConfigPath": `/opt/kata/"a b".toml`}, Settings: map[string]any{"privileged_without_host_devices": true}}
	three   = handler{Name: "matrix-three", Type: "io.containerd.wasmtime.v1", Options: map[string]any{"n": int64(3), "flag": true, "list": []any{"a", "b"}}, Settings: map[string]any{"pod_annotations": []any{"*.wasm.io"}}}
	changed = handler{Name: "matrix-one", Type: "/opt/quiesce/shims/1/containerd-shim-spin-v2", Options: map[string]any{"key": "value"}}
)

// step asks for handlers, and for none that is gone.
type step struct {
	want []handler
	gone []string
}

// steps of an operation; those that take everything away again follow.
func steps(operation string) []step {
	switch operation {
	case "add 1":
		return []step{{want: []handler{one}}}
	case "add 3":
		return []step{{want: []handler{one, two, three}}}
	case "change":
		return []step{{want: []handler{one}}, {want: []handler{changed}}}
	}
	return []step{{want: []handler{one, two, three}}, {want: []handler{two, three}, gone: []string{"matrix-one"}}, {want: []handler{three}, gone: []string{"matrix-two"}}}
}

// cell is one config, containerd and operation.
type cell struct {
	file, version, operation string
	accepted                 bool // by containerd, before
	verdict                  verdict
	why                      string
}

// try does one operation to a config in a jail.
func (c *cell) try(ctx context.Context, j *jail, config []byte) error {
	if err := j.reset(config); err != nil {
		return err
	}
	original, err := j.files()
	if err != nil {
		return err
	}
	before, dumpErr := j.dump(ctx)
	c.accepted = dumpErr == nil
	last := steps(c.operation)
	for i, s := range last {
		refusal, err := j.edit(s.want, s.gone)
		if err != nil {
			return err
		}
		now, err := j.files()
		if err != nil {
			return err
		}
		switch after, err := j.dump(ctx); {
		case refusal != "" && (i > 0 || !maps.Equal(original, now)):
			return c.end(missed, fmt.Sprintf("step %d: refused after changes: %s", i+1, refusal))
		case refusal != "":
			return c.end(refused, refusal)
		case dumpErr != nil:
			return c.end(missed, "edited, though containerd refuses it: "+dumpErr.Error())
		case err != nil:
			return c.end(missed, fmt.Sprintf("step %d: containerd refuses it now: %v", i+1, err))
		default:
			if wrong := judge(before, after, s.want); wrong != "" {
				return c.end(missed, fmt.Sprintf("step %d: %s", i+1, wrong))
			}
		}
	}
	return c.takeAway(j, last[len(last)-1].want, original)
}

// takeAway removes what is there and compares the bytes.
func (c *cell) takeAway(j *jail, have []handler, original map[string]string) error {
	var gone []string
	for _, h := range have {
		gone = append(gone, h.Name)
	}
	refusal, err := j.edit(nil, gone)
	if err != nil {
		return err
	}
	now, err := j.files()
	switch {
	case err != nil:
		return err
	case refusal != "":
		return c.end(missed, "removal refused: "+refusal)
	case !maps.Equal(original, now):
		return c.end(missed, "the files are not as they were")
	case c.operation == "remove":
		return c.end(restored, "")
	}
	return c.end(added, "")
}

func (c *cell) end(v verdict, why string) error {
	c.verdict, c.why = v, why
	return nil
}
