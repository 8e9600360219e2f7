package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/systemd"
)

// raiseDelay has logind read the drop-in that `quiesce-installer host` placed, if what is in effect is less than a drain
// may take. logind reads its configuration only when it is told to.
func raiseDelay(ctx context.Context, cfg Config, l *systemd.Logind) {
	have, err := l.MaxDelay()
	if err != nil || have >= cfg.Drain.Deadline.Duration {
		return
	}
	if err := systemd.ReloadLogind(ctx); err != nil {
		log.G(ctx).WithError(err).Warn("logind may delay shutdowns for a short time only")
		return
	}
	log.G(ctx).WithField("was", have).Info("had logind read its configuration")
}

// delayNotes says what keeps a shutdown from being delayed as long as a drain may take.
func delayNotes(ctx context.Context, cfg Config) (notes []string) {
	if !cfg.Drain.Logind {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	l, err := systemd.NewLogind(ctx)
	if err != nil {
		return nil // without the bus there is a note of its own
	}
	defer l.Close()
	have, err := l.MaxDelay()
	switch {
	case err != nil:
		return []string{"logind does not answer: a drain begins when systemd stops the services, not earlier"}
	case have < cfg.Drain.Deadline.Duration:
		notes = append(notes, fmt.Sprintf("logind delays a shutdown for %v at most and a drain may take %v: the rest of it is done when systemd stops the services (InhibitDelayMaxSec, logind.conf(5))", have, cfg.Drain.Deadline))
	}
	if others, err := l.Others(ctx); err == nil && slices.Contains(others, "kubelet") {
		notes = append(notes, "the kubelet delays shutdowns to stop pods itself: quiesce leaves them to it, and stops what is left when systemd stops the services")
	}
	return notes
}
