package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

type object = map[string]any

// files reads YAML files with any number of documents.
func files(paths []string) (all []object, err error) {
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return nil, err
		}
		objects, err := decode(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

func kustomize(dir string) ([]object, error) {
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	var all []object
	for _, r := range m.Resources() {
		b, err := r.MarshalJSON()
		if err != nil {
			return nil, err
		}
		o, err := strict(b)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// decode reads the documents of a stream.
func decode(r io.Reader) (all []object, err error) {
	d := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		o, err := strict(raw)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
}

// strict reads an object as its API type: fields that the type does not have, and fields that are there twice, are errors.
func strict(b []byte) (object, error) {
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	if _, _, err := codecs.UniversalDeserializer().Decode(b, nil, nil); err != nil {
		return nil, fmt.Errorf("not strictly an API object: %w\n%s", err, b)
	}
	var o object
	return o, json.Unmarshal(b, &o)
}
