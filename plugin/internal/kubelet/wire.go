package kubelet

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"quiesce/plugin/internal/node"
)

// Field numbers of k8s.io/api core/v1 and apimachinery meta/v1 (generated.proto), which never change. The types
// themselves would add ten megabytes for these few.
const (
	podMeta, podSpec                                  = 1, 2
	metaUID, metaDeleted, metaOwners                  = 5, 9, 13
	ownerKind, ownerController                        = 1, 6
	specVolumes, specContainers, specInit, specDebug  = 1, 2, 20, 34
	specPriority                                      = 25
	containerName, containerImage, containerRestart   = 1, 2, 24
	containerMounts, mountVolume, mountReadOnly       = 9, 1, 2
	volumeName, volumeSource, sourceHostPath, hostDir = 1, 2, 1, 1
)

// opaque are volume sources that may be a directory of the host without saying which: claims, flex volumes, CSI, ephemeral.
var opaque = map[int]bool{10: true, 12: true, 28: true, 29: true}

// message calls f for each field; text is empty for a number, number 0 for text.
func message(b []byte, f func(field int, text []byte, number uint64) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var text []byte
		var number uint64
		switch kind { //nolint:exhaustive // the others are passed over
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := f(int(field), text, number); err != nil {
			return err
		}
	}
	return nil
}

// parse reads a pod's bytes.
func parse(b []byte) (uid string, s *node.Spec, err error) {
	s = &node.Spec{}
	err = message(b, func(field int, text []byte, _ uint64) error {
		switch field {
		case podMeta:
			return message(text, func(field int, text []byte, _ uint64) error {
				switch field {
				case metaUID:
					uid = string(text)
				case metaDeleted:
					s.Deleting = true
				case metaOwners:
					return owner(s, text)
				}
				return nil
			})
		case podSpec:
			return spec(s, text)
		}
		return nil
	})
	if err == nil && uid == "" {
		err = errors.New("it has no UID")
	}
	if err != nil {
		return "", nil, fmt.Errorf("read pod: %w", err)
	}
	return uid, s, nil
}

func owner(s *node.Spec, b []byte) error {
	var kind string
	var controller bool
	err := message(b, func(field int, text []byte, number uint64) error {
		switch field {
		case ownerKind:
			kind = string(text)
		case ownerController:
			controller = number != 0
		}
		return nil
	})
	if controller {
		s.Owner = kind
	}
	return err
}

type mount struct {
	volume   string
	readOnly bool
}

func spec(s *node.Spec, b []byte) error {
	hosts := map[string]string{} // volume → directory of the host
	mounts := map[string][]mount{}
	err := message(b, func(field int, text []byte, number uint64) error {
		switch field {
		case specVolumes:
			return volume(s, hosts, text)
		case specPriority:
			i := int32(number) //nolint:gosec // an int32 of protobuf: its low bits
			s.Priority = &i
		case specContainers, specInit, specDebug:
			return container(s, mounts, text, field == specInit)
		}
		return nil
	})
	for i := range s.Containers {
		c := &s.Containers[i]
		for _, m := range mounts[c.Name] {
			if dir := hosts[m.volume]; dir != "" {
				c.Mounts = append(c.Mounts, node.Mount{Host: dir, Writable: !m.readOnly})
			}
		}
	}
	return err
}

func volume(s *node.Spec, hosts map[string]string, b []byte) error {
	var name, dir string
	err := message(b, func(field int, text []byte, _ uint64) error {
		switch field {
		case volumeName:
			name = string(text)
		case volumeSource:
			return message(text, func(source int, text []byte, _ uint64) error {
				s.Opaque = s.Opaque || opaque[source]
				if source != sourceHostPath {
					return nil
				}
				return message(text, func(field int, text []byte, _ uint64) error {
					if field == hostDir {
						dir = string(text)
					}
					return nil
				})
			})
		}
		return nil
	})
	hosts[name] = dir
	return err
}

func container(s *node.Spec, mounts map[string][]mount, b []byte, initial bool) error {
	var c node.Container
	var sidecar bool
	var own []mount
	err := message(b, func(field int, text []byte, _ uint64) error {
		switch field {
		case containerName:
			c.Name = string(text)
		case containerImage:
			c.Images = []string{string(text)}
		case containerRestart:
			sidecar = initial && string(text) == "Always"
		case containerMounts:
			var m mount
			err := message(text, func(field int, text []byte, number uint64) error {
				switch field {
				case mountVolume:
					m.volume = string(text)
				case mountReadOnly:
					m.readOnly = number != 0
				}
				return nil
			})
			own = append(own, m)
			return err
		}
		return nil
	})
	s.Containers = append(s.Containers, c)
	mounts[c.Name] = own
	if sidecar {
		s.Sidecars = append(s.Sidecars, c.Name)
	}
	return err
}
