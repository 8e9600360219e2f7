package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// owner identifies the process that booted a node. A process id alone is used again after a while, and means
// nothing in another pid namespace.
type owner struct {
	PID       int    `json:"pid"`
	Start     string `json:"start"`     // in clock ticks since the machine's boot
	Boot      string `json:"boot"`      // boot id of the machine
	Namespace string `json:"namespace"` // pid namespace
}

// self is this process as an owner.
func self() (owner, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return owner{}, fmt.Errorf("read boot id: %w", err)
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return owner{}, fmt.Errorf("read pid namespace: %w", err)
	}
	start, err := startTime(os.Getpid())
	if err != nil {
		return owner{}, err
	}
	return owner{PID: os.Getpid(), Start: start, Boot: strings.TrimSpace(string(boot)), Namespace: ns}, nil
}

// dead reports whether the owner is known to be gone, seen from the process me.
func (o owner) dead(me owner) bool {
	if o.Boot != me.Boot {
		return true
	}
	if o.Namespace != me.Namespace {
		return false
	}
	start, err := startTime(o.PID)
	return err != nil || start != o.Start
}

// startTime is the start time of a live process.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("read process %d: %w", pid, err)
	}
	_, rest, _ := strings.Cut(string(data[bytes.LastIndexByte(data, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return "", fmt.Errorf("read process %d: it has ended", pid)
	}
	return fields[19], nil
}

// claim creates the directory of a new node with its owner in it.
func (k *Kit) claim(ctx context.Context, id string) (string, error) {
	unlock, err := k.cache.lock(ctx, "nodes")
	if err != nil {
		return "", err
	}
	defer unlock()
	me, err := self()
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(me)
	if err != nil {
		return "", fmt.Errorf("encode owner: %w", err)
	}
	dir := k.cache.path("nodes", id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create node directory: %w", err)
	}
	if err := os.WriteFile(dir+"/owner.json", data, 0o644); err != nil {
		return "", fmt.Errorf("write owner: %w", err)
	}
	return dir, nil
}

// sweep removes the nodes whose owner is dead.
func (k *Kit) sweep(ctx context.Context) error {
	unlock, err := k.cache.lock(ctx, "nodes")
	if err != nil {
		return err
	}
	defer unlock()
	me, err := self()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(k.cache.path("nodes"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var errs []error
	for _, e := range entries {
		dir := k.cache.path("nodes", e.Name())
		var o owner
		data, err := os.ReadFile(dir + "/owner.json")
		if err == nil && json.Unmarshal(data, &o) == nil && !o.dead(me) {
			continue
		}
		errs = append(errs, demolish(ctx, e.Name(), dir))
	}
	return errors.Join(errs...)
}
