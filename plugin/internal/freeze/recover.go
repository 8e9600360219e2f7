package freeze

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/log"

	"quiesce/plugin/stage"
)

// ThawAll thaws what the list in dir names, whoever froze it; with a window's name only if the list is that window's.
// It is safe to call at any time and any number of times, by several processes.
func ThawAll(ctx context.Context, dir, window string) error {
	return thawList(ctx, dir, func(l *list) bool { return window == "" || l.Window == window })
}

// Recover thaws what a dead apply has left frozen, or one whose limit is over. The window of a live one is left alone.
func Recover(ctx context.Context, dir string) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	now, err := uptime()
	if err != nil {
		return err
	}
	return thawList(ctx, dir, func(l *list) bool { return l.Boot != boot || now > l.Until || !l.Owner.Lives() })
}

func thawList(ctx context.Context, dir string, concerns func(*list) bool) error {
	t, err := stage.OpenTree(dir)
	if err != nil {
		return fmt.Errorf("thaw: %w", err)
	}
	defer func() { _ = t.Close() }() // nothing is written through it
	l, err := readList(t)
	if err != nil || l == nil || !concerns(l) {
		return err
	}
	count, err := l.thaw()
	if count > 0 {
		log.G(ctx).WithField("window", l.Window).WithField("count", count).Warn("containers were left frozen: thawed")
	}
	if err != nil {
		return err
	}
	return dropList(t, l.Window)
}

// dropList removes the list if it is still the window's.
func dropList(t *stage.Tree, window string) error {
	now, err := readList(t)
	if err != nil || now == nil || now.Window != window {
		return err
	}
	if err := t.Remove(listName); err != nil {
		return errors.Join(errors.New("everything is thawed, but the list stays"), err)
	}
	return nil
}
