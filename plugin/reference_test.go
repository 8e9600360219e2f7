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

	"quiesce/manifests/profile"
	"quiesce/test/reference"
)

var update = flag.Bool("update", false, "write the reference pages of docs/usage")

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
	r := &table{t: t, comments: map[string]string{}}
	for _, dir := range []string{".", "internal/drain"} {
		r.read(dir)
	}
	r.of("", reflect.ValueOf(c))
	for len(r.later) > 0 {
		next := r.later[0]
		r.later = r.later[1:]
		next()
	}
	reference.Current(t, "configuration.md", configIntro+r.out.String(), *update)
}

// table writes a table for each struct, with the comments of its fields.
type table struct {
	t        *testing.T
	comments map[string]string // Type.Field
	out      strings.Builder
	later    []func()
}

// read takes the comments of fields from the source.
func (r *table) read(dir string) {
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

func (r *table) of(prefix string, v reflect.Value) {
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
			r.later = append(r.later, func() { r.of(full, f) })
			continue
		case elem.Kind() == reflect.Slice && elem.Elem().Kind() == reflect.Struct:
			fmt.Fprintf(&r.out, "| `%s` | none | any number of tables `[[%s]]`, below; %s |\n", name, full, comment)
			r.later = append(r.later, func() { r.of("["+full+"]", reflect.Zero(elem.Elem())) })
			continue
		}
		fmt.Fprintf(&r.out, "| `%s` | %s | %s |\n", name, shown(f), strings.ReplaceAll(comment, "|", "\\|"))
	}
}

// shown is a default as it is written in the file.
func shown(v reflect.Value) string {
	switch {
	case v.Type() == reflect.TypeFor[Duration]():
		return fmt.Sprintf("`%q`", v.Interface())
	case v.Kind() == reflect.Pointer && v.IsNil(), v.Kind() == reflect.Struct:
		return "–"
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
	reference.Current(t, "quiesce.md", reference.Commands(app())+"\nExit codes: 0 done, 1 failed, 2 refused (the request is at fault, and nothing was changed), 3 warnings of `doctor`.\n"+
		"This page is made of the code.\n", *update)
}
