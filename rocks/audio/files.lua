-- files.lua - audio.load, save, info and stream. wav.lua reads and writes WAV files; libsndfile,
-- which is loaded on first use, reads and writes other formats.

local torch = require "tlua"
local args = require "tlua.args"
local source = require "tlua.io.source"

local wav = require "tlua.audio.wav"

local M = {}

-- libsndfile's codes of formats: the upper bits of a code give the container, and the lower bits
-- give the encoding.
local containers <const> = {
   aiff = 0x020000, aif = 0x020000, au = 0x030000, w64 = 0x0B0000, flac = 0x170000, caf = 0x180000,
   ogg = 0x200000, vorbis = 0x200000, opus = 0x200000, mp3 = 0x230000,
}
local subtypes <const> = {
   [1] = {"PCM_S", 8}, [2] = {"PCM_S", 16}, [3] = {"PCM_S", 24}, [4] = {"PCM_S", 32},
   [5] = {"PCM_U", 8}, [6] = {"PCM_F", 32}, [7] = {"PCM_F", 64}, [0x10] = {"ULAW", 8},
   [0x11] = {"ALAW", 8}, [0x60] = {"VORBIS", 0}, [0x64] = {"OPUS", 0}, [0x80] = {"MP3", 0},
   [0x81] = {"MP3", 0}, [0x82] = {"MP3", 0}, [0x70] = {"ALAC", 16}, [0x71] = {"ALAC", 20},
   [0x72] = {"ALAC", 24}, [0x73] = {"ALAC", 32},
}
local containing <const> = {[0x17] = "FLAC"}

-- Raises an error at the user's line about a missing or malformed file. The message names the file.
local function refuse(title, path, message)
   if not message:find(path, 1, true) then message = path .. ": " .. message end
   torch.raise(("%s: %s"):format(title, message))
end

local function open(title, path)
   local file, message = io.open(path, "rb")
   if not file then refuse(title, path, message) end
   return file
end

-- Reads `count` frames of a file with libsndfile, after the first `first` frames. Returns the
-- samples, the number of frames in the whole file, the sample rate and the format code.
local function read_sound(path, first, count, whole)
   local bytes, message = torch.io.map(path)
   if not bytes then return nil, message end
   return torch.io._read_sound(bytes, first, count, whole)
end

-- Returns a table that describes a file, with the fields of torchaudio.info. For a WAV file, the
-- second result is the format that wav.lua has read.
local function describe(title, path)
   local file <close> = open(title, path)
   local head, unreadable = file:read(4)
   if unreadable then refuse(title, path, unreadable) end
   if head == "RIFF" or head == "RF64" then
      local format, message = source.protect(wav.read_header, file)
      if not format then refuse(title, path, message) end
      return {sample_rate = format.sample_rate, num_frames = format.num_frames,
         num_channels = format.num_channels, bits_per_sample = format.bits_per_sample,
         encoding = format.encoding}, format
   end
   if not head then refuse(title, path, "the file is empty") end
   local samples, frames, rate, format = read_sound(path, 0, 0, false)
   if not samples then refuse(title, path, frames) end
   local kind = subtypes[format & 0xFFFF] or {"UNKNOWN", 0}
   return {sample_rate = rate, num_frames = frames, num_channels = samples:size(2),
      bits_per_sample = kind[2], encoding = containing[format >> 16 & 0xFFF] or kind[1]}
end

-- Reads frames as a tensor (frames, channels). `format` is the format that wav.lua has read, or nil
-- for a file that libsndfile reads.
local function read(title, path, info, format, first, count, normalize)
   if format then
      local file <close> = open(title, path)
      local data, message = source.protect(wav.read_frames, file, format, first, count, normalize)
      if not data then refuse(title, path, message) end
      return data
   end
   local bits = info.bits_per_sample
   local is_whole = not normalize and bits > 0 and info.encoding ~= "PCM_F"
   local data, message = read_sound(path, first, count, is_whole)
   if not data then refuse(title, path, message) end
   if data:size(1) < count then
      refuse(title, path, ("the file is damaged: expected %d frames from frame %d on, got %d")
         :format(count, first, data:size(1)))
   end
   if is_whole and bits <= 16 then data = data:div_(65536, {rounding_mode = "floor"}):to "int16" end
   return data
end

local function check_range(title, a)
   if a.frame_offset < 0 then
      args.refuse(title, "frame_offset", "at least 0", a.frame_offset)
   end
   if a.num_frames < -1 or a.num_frames == 0 then
      args.refuse(title, "num_frames", "-1 for all, or at least 1", a.num_frames)
   end
end

-- Returns the number of frames to read: at most num_frames, and at most the frames after
-- frame_offset.
local function count_of(info, a)
   local left = math.max(0, info.num_frames - a.frame_offset)
   return a.num_frames < 0 and left or math.min(left, a.num_frames)
end

local function arrange(data, channels_first)
   return channels_first and data:t():contiguous() or data
end

local take_info = args.signature "audio.info(uri: string)"

--- Returns a table that describes a sound file: `sample_rate`, `num_frames`, `num_channels`,
--- `bits_per_sample` (0 for lossy formats) and `encoding`, such as "PCM_S".
---
---     torch.audio.save("/tmp/tone.wav", torch.zeros(2, 800), 8000)
---     local info = torch.audio.info "/tmp/tone.wav"
---     print(info.sample_rate, info.num_frames, info.num_channels, info.encoding)
---     --> 8000	800	2	PCM_F
---@param uri string  a file's path
---@return table info
function M.info(...)
   local a = take_info(...)
   return (describe("audio.info", a.uri))
end

local take_load = args.signature [[audio.load(uri: string, frame_offset: integer = 0,
   num_frames: integer = -1, normalize: boolean = true, channels_first: boolean = true)]]

--- Loads a sound file in WAV format or in a format of libsndfile, such as FLAC, Ogg and MP3.
---
---     local audio = torch.audio
---     local path = "/tmp/tone.wav"
---     audio.save(path, torch.ones(1, 800) / 2, 8000, {bits_per_sample = 16})
---     local waveform, rate = audio.load(path, 100, 3)
---     print(waveform.shape, rate, audio.load(path, {normalize = false}).dtype)
---     --> torch.Size([1, 3])	8000	int16
---@param uri string  a file's path
---@param frame_offset? integer  the number of frames to skip at the beginning, 0 by default
---@param num_frames? integer  the largest number of frames; -1, the default, is all
---@param options? {normalize: boolean, channels_first: boolean}  normalize: true, the default,
--- returns float32 from -1 to 1; false returns the file's own numbers: uint8, int16, int32 (24-bit
--- samples fill the upper 24 bits), float32 or float64, but float32 from -1 to 1 for mu-law, A-law
--- and lossy formats. channels_first: true by default
---@return Tensor waveform  (channels, frames), or (frames, channels) without channels_first
---@return integer sample_rate
function M.load(...)
   local title, a = "audio.load", take_load(...)
   check_range(title, a)
   local info, format = describe(title, a.uri)
   local data = read(title, a.uri, info, format, a.frame_offset, count_of(info, a), a.normalize)
   return arrange(data, a.channels_first), info.sample_rate
end

local take_stream = args.signature [[audio.stream(uri: string, frames_per_chunk: integer,
   frame_offset: integer = 0, num_frames: integer = -1, normalize: boolean = true,
   channels_first: boolean = true)]]

--- Reads a sound file in pieces, so that a long file needs little memory. Each step of the loop
--- returns the next piece and the sample rate; the last piece may be shorter.
---
---     torch.audio.save("/tmp/tone.wav", torch.zeros(1, 1000), 8000)
---     for piece, rate in torch.audio.stream("/tmp/tone.wav", 400) do
---        print(piece.shape, rate)
---     end
---     --> torch.Size([1, 400])	8000
---     --> torch.Size([1, 400])	8000
---     --> torch.Size([1, 200])	8000
---@param uri string  a file's path
---@param frames_per_chunk integer  the number of frames in a piece
---@param options? {frame_offset: integer, num_frames: integer, normalize: boolean,
---channels_first: boolean}  as in `load`
---@return fun(): Tensor?, integer?
function M.stream(...)
   local title, a = "audio.stream", take_stream(...)
   if a.frames_per_chunk < 1 then
      args.refuse(title, "frames_per_chunk", "at least 1", a.frames_per_chunk)
   end
   check_range(title, a)
   local info, format = describe(title, a.uri)
   local at = a.frame_offset
   local last = at + count_of(info, a)
   return function()
      if at >= last then return nil end
      local n = math.min(a.frames_per_chunk, last - at)
      local data = read(title, a.uri, info, format, at, n, a.normalize)
      at = at + n
      return arrange(data, a.channels_first), info.sample_rate
   end
end

-- Saving ------------------------------------------------------------------------------------------

local dtypes <const> = {uint8 = true, int16 = true, int32 = true, float32 = true, float64 = true}

-- Returns the name of the format: the argument `format`, or else the file extension of the path.
local function format_of(title, a)
   local name = (a.format or a.uri:match "%.([%w]+)$" or ""):lower()
   if name == "wave" then name = "wav" end
   if name ~= "wav" and not containers[name] then
      local known = {"wav"}
      for key in pairs(containers) do known[#known + 1] = key end
      table.sort(known)
      torch.raise(("%s: format: expected %s, got %q"):format(title, table.concat(known, ", "),
         name))
   end
   return name
end

-- Calls write(file) with a temporary file. Once the file is complete, it replaces the file at
-- `path`.
local function replace(title, path, write)
   local file <close>, message = torch.io.replace(path)
   local ok = file
   if ok then ok, message = write(file) end
   if ok then ok, message = torch.io.commit(file) end
   if not ok then refuse(title, path, message) end
end

local function save_wav(title, a, samples)
   local encoding, bits = wav.choose(samples.dtype, a.encoding, a.bits_per_sample)
   if not encoding then torch.raise(("%s: %s"):format(title, bits)) end
   local data = wav.encode(samples, encoding, bits)
   local frames, channels = table.unpack(samples.shape)
   replace(title, a.uri, function(file)
      local header = wav.compose_header(channels, a.sample_rate, frames, encoding, bits)
      local ok, message = file:write(header)
      if ok then ok, message = torch.io.write(file, data) end
      if ok and frames * channels * bits // 8 % 2 == 1 then ok, message = file:write "\0" end
      return ok, message
   end)
end

local pcm <const> = {[8] = 1, [16] = 2, [24] = 3, [32] = 4}

-- Returns libsndfile's code of the encoding for the arguments of `save`.
local function subtype_of(title, a, name, dtype)
   if name == "ogg" or name == "vorbis" then return a.encoding == "OPUS" and 0x64 or 0x60 end
   if name == "opus" then return 0x64 end
   if name == "mp3" then return 0x82 end
   local usual = dtype == "int16" and 16 or dtype == "uint8" and 8 or name == "flac" and 24
      or dtype == "int32" and 32
   local encoding = a.encoding or (a.bits_per_sample or usual) and "PCM_S" or "PCM_F"
   local bits = a.bits_per_sample or usual or 16
   if encoding == "PCM_F" then return (a.bits_per_sample or 32) == 64 and 7 or 6 end
   if encoding == "ULAW" or encoding == "ALAW" then return encoding == "ULAW" and 0x10 or 0x11 end
   if encoding ~= "PCM_S" or not pcm[bits] then
      torch.raise(("%s: bits_per_sample: %s has no %s of %d bits"):format(title, name, encoding,
         bits))
   end
   return pcm[bits]
end

local function save_sound(title, a, name, samples)
   local number = containers[name] | subtype_of(title, a, name, samples.dtype)
   local is_whole = samples.dtype == "int16" or samples.dtype == "int32"
   local data
   if is_whole then
      data = samples.dtype == "int16" and samples:to "int32":mul_(65536) or samples
   else
      data = wav.encode(samples, "PCM_F", 32)
   end
   local quality = a.compression or -1
   local bytes, message = torch.io._write_sound(data:contiguous(), a.sample_rate, number, quality)
   if not bytes then refuse(title, a.uri, message) end
   replace(title, a.uri, function(file) return torch.io.write(file, bytes) end)
end

local take_save = args.signature [[audio.save(uri: string, src: tensor, sample_rate: integer,
   channels_first: boolean = true, format: string?, encoding: string?, bits_per_sample: integer?,
   compression: number?)]]

--- Saves a waveform. The file extension of the path selects the format: `.wav`; `.flac`, `.ogg`,
--- `.opus`, `.mp3`, `.aiff`, `.au`, `.caf` and `.w64` need libsndfile. The options `encoding` and
--- `bits_per_sample`, or else the dtype, determine how samples are stored; Ogg, Opus and MP3 have
--- encodings of their own. Floats outside -1 to 1 are clipped if integers are stored.
---
---     local x = torch.rand(1, 8000) - 0.5
---     torch.audio.save("/tmp/tone.wav", x, 8000, {bits_per_sample = 16})
---     print(torch.audio.info("/tmp/tone.wav").bits_per_sample)
---     --> 16
---@param uri string  a file's path
---@param src Tensor  (channels, frames); uint8, int16, int32, float32 or float64
---@param sample_rate integer  the number of frames per second
---@param options? {channels_first: boolean, format: string, encoding: string, bits_per_sample:
--- integer, compression: number}  channels_first: false for (frames, channels); format: the format,
--- instead of the extension's; encoding: "PCM_S", "PCM_U", "PCM_F", "ULAW" or "ALAW";
--- bits_per_sample: 8, 16, 24, 32 or 64; compression: the quality of Ogg and MP3, from 0 to 1
function M.save(...)
   local title, a = "audio.save", take_save(...)
   local x = a.src
   if x:dim() ~= 2 or x:numel() == 0 then
      args.refuse(title, "src", "a waveform of shape (channels, frames)", x)
   end
   if not dtypes[x.dtype] then
      args.refuse(title, "src", "uint8, int16, int32, float32 or float64", x)
   end
   if a.sample_rate < 1 or a.sample_rate > 0x7FFFFFFF then
      args.refuse(title, "sample_rate", "a positive number of frames a second", a.sample_rate)
   end
   if a.compression and not (a.compression >= 0 and a.compression <= 1) then
      args.refuse(title, "compression", "a quality from 0 to 1", a.compression)
   end
   local samples = x:detach():cpu()
   samples = (a.channels_first and samples:t() or samples):contiguous()
   if samples:size(2) > 1024 then
      args.refuse(title, "src", "at most 1024 channels", x)
   end
   if samples:is_floating_point() and samples:isnan():any():item() then
      args.refuse(title, "src", "samples that are numbers", "NaN")
   end
   local name = format_of(title, a)
   if name == "wav" then save_wav(title, a, samples) else save_sound(title, a, name, samples) end
end

return M
