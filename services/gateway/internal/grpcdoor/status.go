package grpcdoor

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// The trailers that tell the end of a call.
const (
	trailerStatus  = "Grpc-Status"
	trailerMessage = "Grpc-Message"
	trailerDetails = "Grpc-Status-Details-Bin"
)

// writeStatus has a call end with an error, in the place of what grpc-go makes of a
// body that ended too early. It is called before the handler of HTTP returns, which
// is when trailers go out.
func writeStatus(w http.ResponseWriter, err error) {
	st := status.Convert(err)
	h := w.Header()
	for _, name := range []string{trailerStatus, trailerMessage, trailerDetails} {
		h.Del(name)
		h.Del(http.TrailerPrefix + name)
	}
	// The prefix makes trailers of them whether or not headers have gone out.
	h.Set(http.TrailerPrefix+trailerStatus, strconv.Itoa(int(st.Code())))
	h.Set(http.TrailerPrefix+trailerMessage, url.PathEscape(st.Message()))
	if details, err := proto.Marshal(st.Proto()); err == nil {
		h.Set(http.TrailerPrefix+trailerDetails, base64.RawStdEncoding.EncodeToString(details))
	}
}
