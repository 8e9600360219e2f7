package cri

import (
	"context"
	"fmt"
	"path"
	"time"

	"google.golang.org/grpc"
)

// callLimit is how long a call takes at most whose caller sets no limit: a runtime that hangs holds nobody up.
const callLimit = 30 * time.Second

// limited gives calls a limit, but for those that last as long as a container.
func limited(limit time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		switch _, has := ctx.Deadline(); path.Base(method) {
		case "StopContainer", "StopPodSandbox", "ExecSync":
		default:
			if has {
				break
			}
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the runtime did not answer within %v", limit))
			defer cancel()
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}
