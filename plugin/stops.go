package main

import (
	"context"
	"errors"
	"time"

	"quiesce/plugin/internal/containerd/config"
	"quiesce/plugin/internal/stops"
)

// errNoMetrics says why stops are not seen.
var errNoMetrics = errors.New("containerd serves no metrics: [metrics] address in its config")

// observer tells which stops the runtime is at, as far as its metrics say.
func observer(cfg Config) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		path, _, err := locate(ctx, cfg)
		if err != nil {
			return nil, err
		}
		address, err := config.ReadMetrics(ctx, path)
		if err != nil {
			return nil, err
		}
		if address == "" {
			return nil, errNoMetrics
		}
		return stops.InFlight(ctx, address)
	}
}
