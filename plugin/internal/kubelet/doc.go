// Package kubelet asks the kubelet's local pods API for what neither CRI nor NRI tells of a pod: whether it is being deleted,
// whose it is, all its containers before they are made, and which of them are sidecars.
//
// The API is beta and on by default since Kubernetes 1.37 (kubernetes pkg/features: PodsAPI), without the API server, on
// <kubelet root>/pods-api/pods-api.sock. It answers once the kubelet knows its pods. Where there is none everything works
// as CRI's labels and annotations allow.
//
// What was learnt is kept in a file, because a drain stops the kubelet first and then wants to know it.
package kubelet
