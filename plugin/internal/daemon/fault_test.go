package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quiesce/plugin/stage"
)

func TestAFaultIsWaitedOutLongerEachTime(t *testing.T) {
	d := &Daemon{}
	ctx := context.Background()
	var last time.Duration
	for range 6 {
		d.applied(ctx, errors.New("no space\nleft"))
		wait := time.Until(d.fault.next)
		if wait < last-time.Second || wait > lastRetry || d.waiting(time.Now()) != "no space; left" {
			t.Errorf("waits %v after %v, because %q", wait, last, d.waiting(time.Now()))
		}
		last = wait
	}
	if d.waiting(time.Now().Add(2*lastRetry)) != "" || d.lastFault() == "" {
		t.Error("it waits for ever, or has forgotten why")
	}
	d.applied(ctx, nil)
	if d.waiting(time.Now()) != "" || d.lastFault() != "" {
		t.Error("it remembers a fault that is over")
	}
}

// TestTheStageGoesAway: the daemon says so and goes on; it ends once there is another stage to open.
func TestTheStageGoesAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stage")
	if err := stage.Create(dir); err != nil {
		t.Fatal(err)
	}
	store, err := stage.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	d := &Daemon{Store: store}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if in, err := d.look(context.Background(), false); err != nil || !strings.Contains(in.Fault, "quiesce-installer host") {
		t.Errorf("without a stage: %+v, %v", in, err)
	}
	if err := stage.Create(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := d.look(context.Background(), false); !errors.Is(err, ErrStageReplaced) {
		t.Errorf("with another stage: %v", err)
	}
}
