package main

import (
	"context"

	"quiesce/test/bench/measure"
)

func criGap(ctx context.Context, b *bench) ([]measure.Line, error)   { return nil, nil }
func usable(ctx context.Context, b *bench) ([]measure.Line, error)   { return nil, nil }
func podStart(ctx context.Context, b *bench) ([]measure.Line, error) { return nil, nil }
func drains(ctx context.Context, b *bench) ([]measure.Line, error)   { return nil, nil }
