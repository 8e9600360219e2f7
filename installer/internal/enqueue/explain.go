package enqueue

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Explain adds to an error of the inbox what can be done about it.
func Explain(inbox string, err error) error {
	var remedy string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EROFS):
		remedy = "it is mounted read-only: mount it writable"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = "the node's disk is full: make room there, then run this again; nothing was changed"
	case errors.Is(err, fs.ErrPermission):
		remedy = "run this as root, which is user 0 in a pod"
	default:
		return err
	}
	return fmt.Errorf("use inbox %s: %w; %s", inbox, err, remedy)
}

// Missing adds to an error of opening the inbox what can be done about it.
func Missing(inbox string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return Explain(inbox, err)
	}
	return fmt.Errorf("use inbox: %w; run `quiesce-installer host` on the node first, and in a pod mount the node's inbox at %s", err, inbox)
}
