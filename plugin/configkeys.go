package main

import (
	"encoding"
	"fmt"
	"reflect"

	"github.com/pelletier/go-toml/v2/unstable"
)

// exactKeys refuses keys in another case, which the decoder takes for the same, and values without quotes where a text is
// read, which it hands on as one: in every table, and with the line. The text is valid TOML.
func exactKeys(b []byte) error {
	p := unstable.Parser{}
	p.Reset(b)
	table := reflect.TypeFor[Config]()
	for p.NextExpression() {
		var err error
		switch e := p.Expression(); e.Kind { //nolint:exhaustive // comments, and what is no expression by itself
		case unstable.Table, unstable.ArrayTable:
			table, err = settingAt(&p, reflect.TypeFor[Config](), e.Key())
		case unstable.KeyValue:
			err = exactValue(&p, table, e)
		}
		if err != nil {
			return err
		}
	}
	return p.Error()
}

// exactValue checks the key of an assignment, and those of the tables in its value.
func exactValue(p *unstable.Parser, table reflect.Type, kv *unstable.Node) error {
	at, err := settingAt(p, table, kv.Key())
	if err != nil {
		return err
	}
	key := kv.Key()
	for key.Next() && !key.IsLast() {
	}
	if v := kv.Value(); reflect.PointerTo(at).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) && v.Kind != unstable.String {
		return fmt.Errorf("line %d: %s: must be in quotes%s", p.Shape(key.Node().Raw).Start.Line, key.Node().Data, example(at))
	}
	return exactTables(p, at, kv.Value())
}

func example(t reflect.Type) string {
	if t == reflect.TypeFor[Duration]() {
		return ` and have a unit, as in "5s"`
	}
	return ""
}

func exactTables(p *unstable.Parser, at reflect.Type, v *unstable.Node) error {
	if v.Kind != unstable.InlineTable && v.Kind != unstable.Array {
		return nil
	}
	for it := v.Children(); it.Next(); {
		check := exactTables
		if it.Node().Kind == unstable.KeyValue {
			check = exactValue
		}
		if err := check(p, at, it.Node()); err != nil {
			return err
		}
	}
	return nil
}

// settingAt goes down a dotted key. What is no struct has no settings of its own.
func settingAt(p *unstable.Parser, t reflect.Type, keys unstable.Iterator) (reflect.Type, error) {
	for keys.Next() {
		name := string(keys.Node().Data)
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return t, nil
		}
		next, ok := setting(t, name)
		if !ok {
			line := p.Shape(keys.Node().Raw).Start.Line
			return t, fmt.Errorf("line %d: %s is not a setting: mind upper and lower case", line, name)
		}
		t = next
	}
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t, nil
}

// setting is the type of a setting of a table.
func setting(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range t.Fields() {
		if f.IsExported() && f.Tag.Get("toml") == name {
			return f.Type, true
		}
	}
	return nil, false
}

// topSettings are the names of the file's top level.
func topSettings() (names []string) {
	for f := range reflect.TypeFor[Config]().Fields() {
		if f.IsExported() {
			names = append(names, f.Tag.Get("toml"))
		}
	}
	return names
}
