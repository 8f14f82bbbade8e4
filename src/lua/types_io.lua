-- types_io.lua - annotations of the binding's functions for files, and for threads with
-- interpreters of their own. types.lua describes the form.

-- Files -----------------------------------------------------------------------------------------

--- Reads a tensor's elements from an open file; returns nil and a message at the end of the file.
---@param file file*
---@param shape integer[]
---@param dtype string
---@return torch.Tensor?, string?
function torch.io.read(file, shape, dtype) end

---Writes a tensor's elements, row-major, to an open file; nil and a message if that fails.
---@param file file*
---@param tensor torch.Tensor
---@return boolean?, string?
function torch.io.write(file, tensor) end

--- Makes a file that replaces the file at `path` when the new file is committed. If the new file is
--- closed without a commit, the old file stays unchanged. Returns nil and a message if the file
--- cannot be made. If `named` is true, the new file has the name .tlua-PROCESS-COUNT-TIME.tmp until
--- the commit.
---@param path string
---@param named? boolean
---@return file*?, string?
function torch.io.replace(path, named) end

--- Closes a file made by `replace` and moves it into place; returns once the file is on the disk.
--- On failure returns nil, a message, and whether another attempt may succeed.
---@param file file*
---@return boolean?, string?, boolean?
function torch.io.commit(file) end

--- Returns whether the file is a terminal.
---@param file file*
---@return boolean
function torch.io.is_terminal(file) end

--- Returns the seconds of a monotonic clock.
---@return number
function torch.io.clock() end

--- Returns the seconds since 1970, including the fraction, by the system's clock, which may be
--- adjusted.
---@return number
function torch.io.time() end

--- Maps a file into memory and returns its bytes, (n) uint8. The system reads them from disk on
--- first use. Returns nil and a message if the file cannot be opened.
---@param path string
---@return torch.Tensor?, string?
function torch.io.map(path) end

--- Returns a string's bytes as a tensor.
---@param text string
---@return torch.Tensor bytes (n) uint8
function torch.io.bytes(text) end

--- Interprets bytes as a tensor of another dtype, little-endian and row-major. Returns a view if
--- the bytes are aligned, otherwise a copy. Returns nil and a message if there are too few bytes.
---@param bytes torch.Tensor  (n) uint8, contiguous
---@param first integer  the position of the first byte, from 1
---@param shape integer[]
---@param dtype string
---@return torch.Tensor?, string?
function torch.io.bytes_as(bytes, first, shape, dtype) end

--- Returns n bytes as a string.
---@param bytes torch.Tensor  (n) uint8, contiguous
---@param first integer  from 1
---@param n integer
---@return string
function torch.io.text(bytes, first, n) end

---Unpacks deflated bytes; nil and a message if that fails.
---@param bytes torch.Tensor  (n) uint8, contiguous
---@param kind "raw"|"gzip"
---@param expected? integer  the exact number of bytes of the result
---@return torch.Tensor?, string?
function torch.io.inflate(bytes, kind, expected) end

--- Compresses the text's bytes, followed by the tensor's bytes, with deflate, as in .npz files. On
--- failure returns nil and a message.
---@param text string
---@param tensor torch.Tensor  contiguous, on the CPU
---@return torch.Tensor? bytes  (n) uint8
---@return string?
function torch.io.deflate(text, tensor) end

--- Converts quantized blocks of a GGUF file to float32. If the kind is unknown, returns nil and a
--- message.
---@param bytes torch.Tensor  (n) uint8, contiguous
---@param first integer  from 1
---@param shape integer[]
---@param kind string  the layout, such as "Q4_0", "Q6_K" or "IQ4_XS"
---@return torch.Tensor?, string?
function torch.io.dequantize(bytes, first, shape, kind) end

--- Returns the pixels of a PNG, JPEG or WebP file, (channels, height, width) uint8. Returns nil and
--- a message if the file is damaged or the library for the format is missing.
---@param bytes string|torch.Tensor  the file's bytes; a tensor must be (n) uint8, contiguous
---@return torch.Tensor?, string?
function torch.io.decode_image(bytes) end

--- Returns the CRC-32 checksum of a text or a tensor, as zip and PNG files use it. A tensor's
--- checksum is that of the bytes that torch.io.write would write.
---@param data string|torch.Tensor
---@param crc? integer  the checksum of the preceding data; 0 by default
---@return integer
function torch.io.crc32(data, crc) end

--- Lists a folder's contents, except "." and "..", in no particular order. Each entry consists of a
--- letter, the name, and a zero byte. The letter is "d" for a folder, "l" for a link to a folder,
--- or "f" for anything else. torch.data.DatasetFolder uses this function.
---@param path string
---@return torch.Tensor? bytes  (n) uint8; nil with a message if the folder cannot be read
---@return string? message
function torch.io.folder(path) end

--- Makes a folder and its missing parents.
---@param path string
---@return string? path  the absolute path; nil with a message if it cannot be made
---@return string? message
function torch.io.make_folder(path) end

--- Reads up to `rows` rows of a CSV file, beginning at the byte `first`, which is in line number
--- `line`. Fields may be quoted. torch.data.CSV uses this function.
---@param bytes torch.Tensor  (n) uint8, contiguous, on the CPU
---@param first integer  from 1
---@param delimiter string
---@param quote string  the quote character; "" means that no field is quoted
---@param types string[]  for each column a dtype, "string" or "skip"
---@param rows integer
---@param line integer
---@return (torch.Tensor|string[]|false)[]? columns  nil with a message if the text is malformed
---@return integer|string rows  the number of rows read
---@return integer? first  the first byte of the next row
---@return integer? line
function torch.io.csv(bytes, first, delimiter, quote, types, rows, line) end

--- Returns the number of fields of the row that begins at the byte `first`; 0 at the end.
---@param bytes torch.Tensor  (n) uint8, contiguous, on the CPU
---@param first integer  from 1
---@param delimiter string
---@param quote string  the quote character; "" means that no field is quoted
---@return integer? fields  nil with a message if the text is malformed
---@return string? message
function torch.io.csv_fields(bytes, first, delimiter, quote) end

-- Threads with an interpreter of their own --------------------------------------------------------

--- Starts n threads. Each thread loads the module, whose value is a function f, and calls
--- f(stopped, handle, number, ...), where `number` is the number of the thread, from 0. The
--- function that f returns is then called for each job.
---@param name string  the beginning of error messages about values that cannot be sent
---@param n integer
---@param module string
---@param ... any
---@return table pool  an object with the methods send, take and stop
function torch.workers.start(name, n, module, ...) end

--- Returns the number of this interpreter's running workers.
---@return integer
function torch.workers.running() end
