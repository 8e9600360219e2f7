package repo

import (
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// What NRI's callbacks may call outside this module: memory, and nothing that waits.
var harmless = []string{
	"(*sync.Mutex).Lock", "(*sync.Mutex).Unlock", "(*sync/atomic.", "(sync/atomic.", "time.Now", "time.Since", "(time.Time).", "(time.Duration).",
	"errors.New", "errors.Join", "fmt.Sprintf", "fmt.Errorf", "fmt.Sscanf", "strings.", "strconv.", "slices.", "maps.", "cmp.", "path.", "path/filepath.Clean",
	"path/filepath.IsAbs", "(*github.com/containerd/nri/pkg/api.", "(github.com/containerd/nri/pkg/api.", "(*regexp.Regexp).MatchString", "sort.",
	"time.ParseDuration", "encoding/json.Unmarshal", "(*github.com/sirupsen/logrus.Logger).IsLevelEnabled",
}

// walker follows calls from function to function.
type walker struct {
	t     *testing.T
	prog  *ssa.Program
	types []types.Type // of this module, with methods
	seen  map[*ssa.Function]bool
}

// TestCallbacksOnlyTouchMemory follows every call that NRI's callbacks can make: none does I/O, starts a goroutine or waits
// for a channel. Locks are taken, so that what is done under node.State's lock counts too: its package imports no I/O.
func TestCallbacksOnlyTouchMemory(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: root},
		"./plugin/internal/nri", "./plugin/internal/daemon", "./plugin/internal/node", "./plugin/internal/drain")
	if err != nil || packages.PrintErrors(pkgs) > 0 {
		t.Fatalf("load packages: %v", err)
	}
	prog, built := ssautil.Packages(pkgs, ssa.InstantiateGenerics)
	prog.Build()
	w := &walker{t: t, prog: prog, seen: map[*ssa.Function]bool{}}
	for _, p := range built {
		for _, m := range p.Members {
			if typ, ok := m.(*ssa.Type); ok {
				w.types = append(w.types, typ.Type(), types.NewPointer(typ.Type()))
			}
		}
	}
	nri := built[slices.IndexFunc(pkgs, func(p *packages.Package) bool { return strings.HasSuffix(p.PkgPath, "/nri") })]
	for _, typ := range []types.Type{types.NewPointer(nri.Type("Plugin").Type()), nri.Type("logger").Type()} { // the stub logs in callbacks
		for m := range prog.MethodSets.MethodSet(typ).Methods() {
			w.follow(prog.MethodValue(m), "NRI")
		}
	}
	if len(w.seen) < 30 {
		t.Errorf("only %d functions were found", len(w.seen))
	}
	noIO(t, pkgs[slices.IndexFunc(pkgs, func(p *packages.Package) bool { return strings.HasSuffix(p.PkgPath, "/node") })])
}

func noIO(t *testing.T, p *packages.Package) {
	t.Helper()
	for path := range p.Imports {
		if slices.Contains([]string{"os", "net", "io", "io/fs", "os/exec", "syscall"}, path) || strings.Contains(path, "log") {
			t.Errorf("%s imports %s", p.PkgPath, path)
		}
	}
}

func (w *walker) follow(f *ssa.Function, from string) {
	if f == nil || w.seen[f] {
		return
	}
	w.seen[f] = true
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			w.instruction(f, in, from)
		}
	}
	for _, inner := range f.AnonFuncs {
		w.follow(inner, f.String())
	}
}

func (w *walker) instruction(f *ssa.Function, in ssa.Instruction, from string) {
	bad := func(what string) {
		w.t.Errorf("%s: %s, called from %s, %s", w.prog.Fset.Position(in.Pos()), f, from, what)
	}
	switch in := in.(type) {
	case *ssa.Go:
		bad("starts a goroutine")
	case *ssa.Send:
		bad("sends to a channel")
	case *ssa.Select:
		if in.Blocking {
			bad("waits for channels")
		}
	case *ssa.UnOp:
		if in.Op == token.ARROW {
			bad("receives from a channel")
		}
	case ssa.CallInstruction:
		w.call(f, in.Common(), bad)
	}
}

func (w *walker) call(f *ssa.Function, c *ssa.CallCommon, bad func(string)) {
	if c.IsInvoke() {
		w.invoke(f, c, bad)
		return
	}
	callee := c.StaticCallee()
	switch {
	case callee == nil:
		w.value(f, c, bad)
	case strings.Contains(callee.String(), "quiesce/plugin/"):
		w.follow(callee, f.String())
	case !isHarmless(callee):
		bad("calls " + callee.String())
	}
}

func isHarmless(f *ssa.Function) bool {
	return slices.ContainsFunc(harmless, func(p string) bool { return strings.HasPrefix(f.String(), p) })
}

// invoke follows a method of an interface to every type of this module that has it.
func (w *walker) invoke(f *ssa.Function, c *ssa.CallCommon, bad func(string)) {
	iface := c.Value.Type().Underlying().(*types.Interface) //nolint:forcetypeassert // it is one
	found := false
	for _, typ := range w.types {
		if types.IsInterface(typ) || !types.Implements(typ, iface) {
			continue
		}
		if sel := w.prog.MethodSets.MethodSet(typ).Lookup(c.Method.Pkg(), c.Method.Name()); sel != nil {
			found = true
			w.follow(w.prog.MethodValue(sel), f.String())
		}
	}
	if !found && c.Method.FullName() != "(error).Error" && c.Method.FullName() != "(context.Context).Err" {
		bad("calls " + c.Method.FullName() + ", whoever that is")
	}
}

// value follows a function that is a value: every function literal of its package with its signature.
func (w *walker) value(f *ssa.Function, c *ssa.CallCommon, bad func(string)) {
	switch v := c.Value.(type) {
	case *ssa.Builtin:
		return
	case *ssa.Call: // an iterator
		if made := v.Call.StaticCallee(); made != nil && isHarmless(made) {
			return
		}
	}
	found := false
	for other := range ssautil.AllFunctions(w.prog) {
		if other.Pkg == f.Pkg && other.Parent() != nil && types.Identical(other.Signature, c.Signature()) {
			found = true
			w.follow(other, f.String())
		}
	}
	if !found {
		bad("calls " + c.Value.String() + ", whoever that is")
	}
}
