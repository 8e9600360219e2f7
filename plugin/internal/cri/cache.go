package cri

import "sync"

// cache keeps what the runtime says once of a container or a sandbox and what never changes, by id.
type cache[T any] struct {
	mu sync.Mutex
	m  map[string]T
}

func newCache[T any]() *cache[T] { return &cache[T]{m: map[string]T{}} }

func (k *cache[T]) get(id string) (T, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.m[id]
	return v, ok
}

func (k *cache[T]) put(id string, v T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.m[id] = v
}

// keep forgets what is no longer listed.
func (k *cache[T]) keep(ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := make(map[string]T, len(ids))
	for _, id := range ids {
		if v, ok := k.m[id]; ok {
			next[id] = v
		}
	}
	k.m = next
}

func ids[T interface{ GetId() string }](list []T) (ids []string) {
	for _, e := range list {
		ids = append(ids, e.GetId())
	}
	return ids
}
