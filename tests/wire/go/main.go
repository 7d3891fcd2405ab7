// A client by grpc-go; speaker.py says what lines it reads and writes.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

type line struct {
	ID          int               `json:"id"`
	Op          string            `json:"op"`
	Channel     string            `json:"channel"`
	Target      string            `json:"target"`
	CA          string            `json:"ca"`
	KeepaliveMs int               `json:"keepalive_ms"`
	Path        string            `json:"path"`
	Kind        string            `json:"kind"`
	Requests    [][]byte          `json:"requests"`
	Repeat      int               `json:"repeat"`
	DeadlineMs  int               `json:"deadline_ms"`
	Metadata    map[string]string `json:"metadata"`
	Gzip        bool              `json:"gzip"`
	CancelAfter int               `json:"cancel_after"`
	Abandon     bool              `json:"abandon"`
}

type answer struct {
	ID       int               `json:"id"`
	Began    bool              `json:"began,omitempty"`
	Code     int               `json:"code"`
	Message  string            `json:"message"`
	Answers  [][]byte          `json:"answers"`
	Trailing map[string]string `json:"trailing"`
}

// Bytes are their own message.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte{}, data...)
	return nil
}
func (raw) Name() string { return "proto" }

var outLock sync.Mutex

func tell(v any) {
	text, _ := json.Marshal(v)
	outLock.Lock()
	defer outLock.Unlock()
	fmt.Println(string(text))
}

func open(l line) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if l.CA != "" {
		pem, err := os.ReadFile(l.CA)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		creds = credentials.NewTLS(&tls.Config{RootCAs: pool})
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(creds), grpc.WithNoProxy(), grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}))}
	if l.KeepaliveMs > 0 {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: time.Duration(l.KeepaliveMs) * time.Millisecond, PermitWithoutStream: true}))
	}
	if l.Gzip {
		options = append(options, grpc.WithDefaultCallOptions(grpc.UseCompressor("gzip")))
	}
	return grpc.NewClient(l.Target, options...)
}

func trailing(md metadata.MD) map[string]string {
	result := map[string]string{}
	for key, values := range md {
		if strings.HasSuffix(key, "-bin") {
			result[key] = base64.StdEncoding.EncodeToString([]byte(values[0]))
		} else {
			result[key] = values[0]
		}
	}
	return result
}

func send(stream grpc.ClientStream, l line, cancel func()) {
	requests := l.Requests
	for i := 0; i < len(requests)+l.Repeat; i++ {
		if stream.SendMsg(&requests[min(i, len(requests)-1)]) != nil {
			return
		}
	}
	if l.Abandon {
		cancel()
	} else {
		stream.CloseSend()
	}
}

func call(conn *grpc.ClientConn, l line) (result answer) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if l.DeadlineMs > 0 {
		var stop func()
		ctx, stop = context.WithTimeout(ctx, time.Duration(l.DeadlineMs)*time.Millisecond)
		defer stop()
	}
	for key, value := range l.Metadata {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	options := []grpc.CallOption{grpc.WaitForReady(true)}
	result = answer{ID: l.ID, Answers: [][]byte{}}
	var md metadata.MD
	err := func() error {
		if l.Kind == "unary_unary" {
			var reply []byte
			if l.CancelAfter == 0 {
				cancel()
			}
			err := conn.Invoke(ctx, l.Path, &l.Requests[0], &reply, append(options, grpc.Trailer(&md))...)
			if err == nil {
				result.Answers = append(result.Answers, reply)
			}
			return err
		}
		desc := &grpc.StreamDesc{ServerStreams: strings.HasSuffix(l.Kind, "stream"), ClientStreams: strings.HasPrefix(l.Kind, "stream")}
		stream, err := conn.NewStream(ctx, desc, l.Path, options...)
		if err != nil {
			return err
		}
		go send(stream, l, cancel)
		for {
			var reply []byte
			if err = stream.RecvMsg(&reply); err != nil {
				break
			}
			result.Answers = append(result.Answers, reply)
			if len(result.Answers) == 1 {
				tell(answer{ID: l.ID, Began: true})
			}
			if len(result.Answers) == l.CancelAfter {
				cancel()
			}
			if !desc.ServerStreams {
				err = nil
				break
			}
		}
		md = stream.Trailer()
		if err == io.EOF {
			return nil
		}
		return err
	}()
	state := status.Convert(err)
	result.Code, result.Message, result.Trailing = int(state.Code()), state.Message(), trailing(md)
	if state.Code() == codes.OK {
		result.Message = ""
	}
	return result
}

func main() {
	conns := map[string]*grpc.ClientConn{}
	reader := bufio.NewReader(os.Stdin)
	for {
		text, err := reader.ReadBytes('\n')
		if err != nil {
			return
		}
		l := line{CancelAfter: -1}
		if err := json.Unmarshal(text, &l); err != nil {
			panic(err)
		}
		if l.Op == "open" {
			conn, err := open(l)
			if err != nil {
				panic(err)
			}
			conns[l.Channel] = conn
			tell(answer{ID: l.ID})
			continue
		}
		go func() { tell(call(conns[l.Channel], l)) }()
	}
}
