package nri

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/containerd/nri/pkg/stub"
	"github.com/sirupsen/logrus"
)

// Name and Index are how the plugin registers: 10-quiesce.
const (
	Name  = "quiesce"
	Index = "10"
)

// registration is how long a stub may take to register and be configured; the stub's own limit is 5 s, and not kept
// when the runtime hangs in between (containerd/nri#298).
const registration = 15 * time.Second

// patience is how long a registration waits for stops in flight at most: until it ends a registration freezes CRI behind
// a long stop (containerd#14083), but a grace may be hours and the gate is blind meanwhile.
const (
	patience  = time.Minute
	calmEvery = 250 * time.Millisecond
)

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Status is the state of the connection.
type Status struct {
	Connected bool      `json:"connected"` // registered, and Synchronize was received
	Runtime   string    `json:"runtime,omitempty"`
	Since     time.Time `json:"since"` // of the present state
	LastError string    `json:"last_error,omitempty"`
	Callbacks Latency   `json:"callbacks,omitzero"`
}

// Session keeps the plugin registered.
type Session struct {
	socket string
	sink   Sink
	fence  Fence
	limit  time.Duration // of a registration

	// Calm tells whether no container is being stopped, as far as one knows; nil: nobody knows. Set it before Run.
	Calm func(ctx context.Context) bool

	launched bool // by the runtime
	clock    clock

	hurry chan struct{}

	mu     sync.Mutex
	status Status
}

// NewSession prepares a session on the runtime's NRI socket.
func NewSession(socket string, sink Sink, fence Fence) *Session {
	return &Session{socket: socket, sink: sink, fence: fence, limit: registration, hurry: make(chan struct{}, 1), status: Status{Since: time.Now()}}
}

// NewLaunched prepares the session of a plugin that the runtime started itself: its connection, and the plugin's name, are
// in the environment.
func NewLaunched(sink Sink, fence Fence) *Session {
	return &Session{sink: sink, fence: fence, limit: registration, launched: true, hurry: make(chan struct{}, 1), status: Status{Since: time.Now()}}
}

// Hurry has a registration that failed tried again at once. It may be called at any time.
func (s *Session) Hurry() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}

// Status may be called at any time.
func (s *Session) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Callbacks = s.clock.read()
	return st
}

func (s *Session) set(connected bool, runtime string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if connected != s.status.Connected {
		s.status.Since = time.Now()
	}
	s.status.Connected, s.status.Runtime, s.status.LastError = connected, runtime, ""
	if err != nil {
		s.status.LastError = err.Error()
	}
}

// ErrHung says that a registration did not come back. Its stub holds locks for good, so the process has to end
// and be started anew by its supervisor.
var ErrHung = errors.New("the NRI registration hangs")

// Run registers, and registers anew after each end of the connection, until ctx ends.
func (s *Session) Run(ctx context.Context) error {
	q, end := startQueue(ctx)
	defer end()
	retry := firstRetry
	for ctx.Err() == nil {
		s.awaitCalm(ctx)
		began := time.Now()
		err := s.once(ctx, q)
		if errors.Is(err, ErrHung) {
			return err
		}
		if s.Status().Connected || time.Since(began) > time.Minute {
			retry = firstRetry
			log.G(ctx).Info("NRI connection closed")
		}
		s.set(false, "", err)
		select {
		case <-ctx.Done():
		case <-time.After(retry):
			retry = min(retry*2, lastRetry)
		case <-s.hurry:
			retry = firstRetry
		}
	}
	return nil
}

// awaitCalm returns when no stop is in flight, or patience is over.
func (s *Session) awaitCalm(ctx context.Context) {
	if s.Calm == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for told := false; ctx.Err() == nil && !s.Calm(ctx); told = true {
		if !told {
			log.G(ctx).Info("registration with NRI waits: containers are being stopped")
		}
		select {
		case <-ctx.Done():
		case <-time.After(calmEvery):
		}
	}
}

// Once registers, and returns when the connection ends.
func (s *Session) Once(ctx context.Context) error {
	q, end := startQueue(ctx)
	defer end()
	defer s.set(false, "", nil)
	return s.once(ctx, q)
}

// once holds one connection until it ends.
func (s *Session) once(ctx context.Context, q *queue) error {
	closed := make(chan struct{})
	var once sync.Once
	p := &Plugin{sink: s.sink, fence: s.fence, clock: &s.clock, synced: func(runtime, version string) {
		s.set(true, runtime+" "+version, nil)
		q.put(logrus.InfoLevel, logrus.Fields{"runtime": runtime, "version": version}, "NRI synchronized")
	}}
	options := []stub.Option{stub.WithLogger(logger{q}), stub.WithOnClose(func() { once.Do(func() { close(closed) }) })}
	if !s.launched {
		options = append(options, stub.WithPluginName(Name), stub.WithPluginIdx(Index), stub.WithSocketPath(s.socket))
	}
	st, err := stub.New(p, options...)
	if err != nil {
		return fmt.Errorf("make NRI stub: %w", err)
	}
	started := make(chan error, 1)
	go func() { started <- st.Start(ctx) }()
	select {
	case err = <-started:
	case <-time.After(s.limit):
		return ErrHung
	}
	if err != nil {
		return fmt.Errorf("register with NRI: %w", err)
	}
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		st.Stop()
		return nil
	}
}
