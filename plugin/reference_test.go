package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"quiesce/manifests/profile"
)

var update = flag.Bool("update", false, "write the reference pages of docs/usage")

// isCurrent compares a page of docs/usage with what the code says, or writes it.
func isCurrent(t *testing.T, page, text string) {
	t.Helper()
	file := "../docs/usage/" + page
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != text {
		t.Errorf("%s is stale (%v): go test ./plugin ./installer -run Reference -update", file, err)
	}
}

const configIntro = "# Configuration\n\n`/etc/quiesce/config.toml`. Everything has a default, and the file that `quiesce-installer host` writes lists the settings, each with\n" +
	"a comment. Keys that are not known, mis-cased ones too, are an error that names the line. `systemctl restart quiesce` takes a\n" +
	"change over; it touches no pod. Durations are written as \"90s\", \"5m\" or \"1h30m\".\n\n" +
	"The defaults below are those of the profile `vanilla`; [distributions](distributions.md) says what the others change. This page is made of the code.\n"

func TestConfigurationReference(t *testing.T) {
	p, err := profile.Named("vanilla")
	if err != nil {
		t.Fatal(err)
	}
	c, err := defaults(p)
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{t: t, comments: map[string]string{}}
	for _, dir := range []string{".", "internal/drain"} {
		r.read(dir)
	}
	r.table("", reflect.ValueOf(c))
	for len(r.later) > 0 {
		next := r.later[0]
		r.later = r.later[1:]
		next()
	}
	isCurrent(t, "configuration.md", configIntro+r.out.String())
}

// reference writes a table for each struct, with the comments of its fields.
type reference struct {
	t        *testing.T
	comments map[string]string // Type.Field
	out      strings.Builder
	later    []func()
}

// read takes the comments of fields from the source.
func (r *reference) read(dir string) {
	files, err := os.ReadDir(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+f.Name(), nil, parser.ParseComments)
		if err != nil {
			r.t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						r.comments[spec.Name.Name+"."+name.Name] = strings.TrimSpace(field.Comment.Text())
					}
				}
			}
			return true
		})
	}
}

func (r *reference) table(prefix string, v reflect.Value) {
	if prefix != "" {
		fmt.Fprintf(&r.out, "\n## `[%s]`\n", prefix)
	}
	r.out.WriteString("\n| setting | default | meaning |\n|---|---|---|\n")
	for i, f := range reflect.Indirect(v).Fields() {
		if !i.IsExported() {
			continue
		}
		name := i.Tag.Get("toml")
		comment := r.comments[v.Type().Name()+"."+i.Name]
		if comment == "" {
			r.t.Errorf("%s.%s has no comment", v.Type().Name(), i.Name)
		}
		full := strings.TrimPrefix(prefix+"."+name, ".")
		elem := i.Type
		switch {
		case elem.Kind() == reflect.Struct && elem.Name() == "DrainConfig":
			r.later = append(r.later, func() { r.table(full, f) })
			continue
		case elem.Kind() == reflect.Slice && elem.Elem().Kind() == reflect.Struct:
			fmt.Fprintf(&r.out, "| `%s` | none | any number of tables `[[%s]]`, below; %s |\n", name, full, comment)
			r.later = append(r.later, func() { r.table("["+full+"]", reflect.Zero(elem.Elem())) })
			continue
		}
		fmt.Fprintf(&r.out, "| `%s` | %s | %s |\n", name, shown(f), strings.ReplaceAll(comment, "|", "\\|"))
	}
}

// shown is a default as it is written in the file.
func shown(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil(), v.Kind() == reflect.Struct:
		return "–"
	case v.Type() == reflect.TypeFor[Duration]():
		return fmt.Sprintf("`%q`", v.Interface())
	case v.Kind() == reflect.String:
		return fmt.Sprintf("`%q`", v.String())
	case v.Kind() == reflect.Slice:
		var all []string
		for i := range v.Len() {
			all = append(all, fmt.Sprintf("%q", v.Index(i)))
		}
		return "`[" + strings.Join(all, ", ") + "]`"
	default:
		return fmt.Sprintf("`%v`", v.Interface())
	}
}

func TestCommandReference(t *testing.T) {
	isCurrent(t, "quiesce.md", "# quiesce\n\n"+commands(app())+"\nExit codes: 0 done, 1 failed, 2 refused (the request is at fault, and nothing was changed), 3 warnings of `doctor`.\n"+
		"This page is made of the code.\n")
}

// commands lists what a program takes.
func commands(root *cli.Command) string {
	var b strings.Builder
	flags := func(c *cli.Command) {
		for _, f := range c.Flags {
			doc, ok := f.(cli.DocGenerationFlag)
			if v, hidden := f.(cli.VisibleFlag); !ok || hidden && !v.IsVisible() {
				continue
			}
			fmt.Fprintf(&b, "- %s: %s\n", named(f, doc), strings.ReplaceAll(doc.GetUsage(), "`", ""))
		}
	}
	fmt.Fprintf(&b, "%s\n\n", root.Usage)
	flags(root)
	for _, c := range root.Commands {
		if c.Hidden {
			continue
		}
		fmt.Fprintf(&b, "\n## %s %s %s\n\n%s\n", root.Name, c.Name, c.ArgsUsage, c.Usage)
		if c.Description != "" {
			fmt.Fprintf(&b, "\n%s\n", c.Description)
		}
		b.WriteString("\n")
		flags(c)
	}
	return strings.ReplaceAll(strings.ReplaceAll(b.String(), " \n", "\n"), "\n\n\n", "\n\n")
}

func named(f cli.Flag, doc cli.DocGenerationFlag) string {
	var all []string
	for _, n := range f.Names() {
		dash := "--"
		if len(n) == 1 {
			dash = "-"
		}
		all = append(all, "`"+dash+n+"`")
	}
	text := strings.Join(all, ", ")
	if env := doc.GetEnvVars(); len(env) > 0 {
		text += " (" + strings.Join(env, ", ") + ")"
	}
	return text
}
