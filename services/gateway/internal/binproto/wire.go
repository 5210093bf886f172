package binproto

// Everything here is on the wire and must not change.

var magic = [4]byte{'E', 'S', '0', '1'}

// maxToken is the longest token.
const maxToken = 1024

// featureGzip is the bit that asks for compressed payloads.
const featureGzip = 1

// A status is how a handshake ended.
type status uint8

const (
	statusOK           status = 0
	statusBadMagic     status = 1
	statusAuthFailed   status = 2
	statusAuthRequired status = 3
)

// An opcode says what a frame is.
type opcode uint8

const (
	opProduce opcode = 0x01
	opConsume opcode = 0x02
	opPing    opcode = 0x03
	opError   opcode = 0xFF
)

// String names what is asked for.
func (o opcode) String() string {
	switch o {
	case opProduce:
		return "produce"
	case opConsume:
		return "consume"
	case opPing:
		return "ping"
	default:
		return "other"
	}
}

// response is the opcode of the answer to a request.
func (o opcode) response() opcode { return o | 0x80 }

const (
	lengthSize = 4
	// headSize is what the length of a frame covers beside the payload: request
	// id and opcode.
	headSize = 5
	// frameHead is where the payload begins.
	frameHead = lengthSize + headSize
)

// maxTopic is the longest name that a topic can have.
const maxTopic = 249

// maxInFlight is how many requests of a connection run at once.
const maxInFlight = 32
