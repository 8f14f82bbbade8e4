-- Tests audio.load, save, info and stream. Files that libsndfile has written (fixtures/files.py) must give exactly the
-- same samples, and damaged files must give errors that name them.

local torch = require "tlua"
local shell = require "spec.support.shell"

local audio = torch.audio
local saved = torch.load "rocks/audio/spec/fixtures/files.pt"
local has_library = pcall(function() assert(torch.io._read_sound(saved.flac16.bytes, 0, 1, false)) end)

local function with_file(name, bytes, fn)
   shell.with_folder(function(folder)
      local path = folder .. "/" .. name
      local file <close> = assert(io.open(path, "wb"))
      assert(file:write(type(bytes) == "string" and bytes or torch.io.text(bytes, 1, bytes:numel())))
      file:close()
      fn(path, folder)
   end)
end

local bits <const> = {u8 = 8, s16 = 16, s24 = 24, s32 = 32, f32 = 32, f64 = 64, ulaw = 8, alaw = 8, ext24 = 24,
   extf = 32, extulaw = 8, rf64 = 16, flac16 = 16, flac24 = 24, ogg = 0, mp3 = 0}
local needs <const> = {flac16 = true, flac24 = true, ogg = true, mp3 = true}

describe("audio.load", function()
   for name, case in pairs(saved) do
      it("reads the same samples as libsndfile from " .. name, function()
         if needs[name] and not has_library then pending "no libsndfile" end
         with_file("x.wav", case.bytes, function(path)
            local waveform, rate = audio.load(path)
            assert.equal(16000, rate)
            assert.equal("float32", waveform.dtype)
            -- Ogg and MP3 are decoded by other libraries, whose versions may give slightly different samples.
            local most = (name == "ogg" or name == "mp3") and 1e-4 or 0
            local expected = case.samples:t()
            assert.same({table.unpack(expected.shape)}, {table.unpack(waveform.shape)})
            assert.is_true((expected - waveform):abs():max():item() <= most)
            local info = audio.info(path)
            assert.equal(case.samples:size(1), info.num_frames)
            assert.equal(2, info.num_channels)
            assert.equal(bits[name], info.bits_per_sample)
            local part = audio.load(path, 20, 31, {channels_first = false})
            assert.is_true((case.samples:narrow(1, 21, 31) - part):abs():max():item() <= most)
            local pieces = {}
            for piece in audio.stream(path, 64, {frame_offset = 5}) do pieces[#pieces + 1] = piece end
            assert.is_true((torch.cat(pieces, 2) - waveform:narrow(2, 6, waveform:size(2) - 5)):abs():max():item()
               <= most)
         end)
      end)
   end

   it("returns the stored numbers if normalize is false", function()
      local kinds = {u8 = "uint8", s16 = "int16", s24 = "int32", s32 = "int32", f32 = "float32", f64 = "float64",
         ulaw = "float32", flac16 = "int16", flac24 = "int32"}
      for name, dtype in pairs(kinds) do
         if not needs[name] or has_library then
            with_file("x", saved[name].bytes, function(path)
               local x = audio.load(path, {normalize = false})
               assert.equal(dtype, x.dtype, name)
               local real = x:double()
               if dtype == "uint8" then real = (real - 128) / 128 end
               if dtype:find "^int" then real = real / 2.0 ^ (dtype == "int16" and 15 or 31) end
               assert.is_true((real:float():t() - saved[name].samples):abs():max():item() == 0, name)
            end)
         end
      end
   end)

   it("reads to the end if the size of the data is not known", function()
      local text = torch.io.text(saved.s16.bytes, 1, saved.s16.bytes:numel())
      local head = text:sub(1, 40) .. "\xFF\xFF\xFF\xFF" .. text:sub(45)
      with_file("x.wav", head, function(path)
         assert.is_true(torch.equal(saved.s16.samples:t():contiguous(), (audio.load(path))))
      end)
   end)

   it("does not read a chunk after empty data as samples", function()
      local text = torch.io.text(saved.s16.bytes, 1, saved.s16.bytes:numel())
      local chunks = text:sub(9, 40) .. "\0\0\0\0" .. "LIST\4\0\0\0INFO"
      with_file("x.wav", "RIFF" .. ("<I4"):pack(#chunks) .. chunks, function(path)
         assert.same({2, 0}, {table.unpack(audio.load(path).shape)})
         assert.equal(0, audio.info(path).num_frames)
      end)
      -- A file size of 0 in the header means that the program that wrote the file did not know its size.
      with_file("x.wav", "RIFF\0\0\0\0" .. chunks, function(path)
         assert.same({2, 3}, {table.unpack(audio.load(path).shape)})
      end)
   end)

   it("returns no frames after the end", function()
      with_file("x.wav", saved.s16.bytes, function(path)
         assert.same({2, 0}, {table.unpack(audio.load(path, 150).shape)})
         assert.same({2, 3}, {table.unpack(audio.load(path, 147, 100).shape)})
      end)
   end)

   it("names the file in errors about damaged files", function()
      local text = torch.io.text(saved.ext24.bytes, 1, saved.ext24.bytes:numel())
      local function with(at, bytes) return text:sub(1, at - 1) .. bytes .. text:sub(at + #bytes) end
      for message, bytes in pairs {
         ["the file is empty"] = "",
         ["the file ends in the RIFF header: expected 12 bytes, got 6"] = "RIFF12",
         ["no WAV file: it does not begin with RIFF and WAVE"] = "RIFF1234AVI 1234",
         ["there is no fmt chunk"] = text:sub(1, 12),
         ["the file ends in a chunk's header: expected 8 bytes, got 5"] = text:sub(1, 17),
         ["the file ends in the fmt chunk: expected 40 bytes, got 10"] = text:sub(1, 30),
         ["0 channels; expected 1 to 1024"] = with(23, "\0\0"),
         ["a sample rate of 0"] = with(25, "\0\0\0\0"),
         ["samples of 77 bits in 3 bytes"] = with(35, "\77"),
         ["the subformat of the fmt chunk is not known"] = with(50, "\1\2\3"),
         ["the data chunk says 900 bytes, but 896 follow; the file is cut off"] = text:sub(1, -5),
      } do
         with_file("broken.wav", bytes, function(path)
            for _, call in ipairs {audio.load, audio.info} do
               local ok, said = pcall(function() call(path) end)
               assert.is_false(ok)
               assert.matches("^%S*files_spec%.lua:%d+: audio%.%a+: ", said)
               assert.matches(path .. ": " .. message, said, 1, true)
            end
         end)
      end
      assert.raises("audio.load: /none/x.wav: No such file or directory", function() audio.load "/none/x.wav" end)
      if has_library then
         with_file("x.flac", saved.flac16.bytes:narrow(1, 1, 300), function(path)
            assert.raises(path, function() audio.load(path) end)
         end)
         with_file("x.ogg", "no sound at all", function(path)
            assert.raises(path .. ": libsndfile: Format not recognised", function() audio.load(path) end)
         end)
      end
   end)

   it("raises only such errors for damaged headers", function()
      math.randomseed(3)
      local names = has_library and {"s24", "extf", "rf64", "flac16"} or {"s24", "extf", "rf64"}
      for round = 1, 200 do
         local bytes = saved[names[round % #names + 1]].bytes:clone()
         for _ = 1, math.random(1, 4) do bytes[math.random(1, 80)] = math.random(0, 255) end
         if math.random() < 0.3 then bytes = bytes:narrow(1, 1, math.random(1, bytes:numel())) end
         with_file("x.wav", bytes, function(path)
            local ok, said = pcall(audio.load, path)
            if not ok then assert.matches("audio.load: " .. path, said, 1, true) end
         end)
      end
   end)

   it("refuses invalid arguments", function()
      with_file("x.wav", saved.s16.bytes, function(path)
         assert.raises("audio.load: frame_offset: expected at least 0, got -1", function() audio.load(path, -1) end)
         assert.raises("audio.load: num_frames: expected -1 for all, or at least 1, got 0", function()
            audio.load(path, 0, 0)
         end)
         assert.raises("audio.stream: frames_per_chunk: expected at least 1, got 0", function()
            audio.stream(path, 0)
         end)
      end)
   end)
end)

describe("audio.save", function()
   -- the shape is (3, 185), and some samples are above 1
   local x = torch.arange(-1.2, 1.2, 0.013, {device = "cpu"}):float():view(1, -1):repeat_interleave(3, 1)

   it("writes samples that load reads back", function()
      for _, case in ipairs {{"PCM_U", 8, 2 ^ -7}, {"PCM_S", 16, 2 ^ -15}, {"PCM_S", 24, 2 ^ -23},
         {"PCM_S", 32, 2 ^ -24}, {"PCM_F", 32, 0}, {"PCM_F", 64, 0}, {"ULAW", 8, 2 ^ -5}, {"ALAW", 8, 2 ^ -5}} do
         shell.with_folder(function(folder)
            local path = folder .. "/x.wav"
            audio.save(path, x, 22050, {encoding = case[1], bits_per_sample = case[2]})
            local y, rate = audio.load(path)
            assert.equal(22050, rate)
            local expected = case[1] == "PCM_F" and x or x:clamp(-1, 1)
            assert.is_true((y - expected):abs():max():item() <= case[3], case[1] .. case[2])
            audio.save(path, audio.load(path, {normalize = false}), 22050,
               {encoding = case[1], bits_per_sample = case[2]})
            assert.is_true(torch.equal(y, (audio.load(path))), "the same file again")
         end)
      end
   end)

   it("writes files of an odd number of bytes and empty channels at the end", function()
      shell.with_folder(function(folder)
         audio.save(folder .. "/x.wav", torch.ones(1, 3, {dtype = "uint8"}), 8000)
         assert.equal(48, #shell.read(folder .. "/x.wav"))
         assert.same({"uint8", 8}, {audio.load(folder .. "/x.wav", {normalize = false}).dtype,
            audio.info(folder .. "/x.wav").bits_per_sample})
      end)
   end)

   it("writes FLAC, Ogg and MP3 by libsndfile", function()
      if not has_library then pending "no libsndfile" end
      local tone = torch.arange(16000, {device = "cpu"}) * (2 * math.pi * 440 / 16000)
      tone = tone:sin():unsqueeze(1):float() / 2
      for ending, most in pairs {flac = 2 ^ -23, ogg = 0.05, mp3 = 2, opus = 2, aiff = 0} do
         shell.with_folder(function(folder)
            local path = folder .. "/x." .. ending
            audio.save(path, tone, 16000)
            local y = audio.load(path)
            assert.is_true(y:size(2) >= 16000)
            assert.is_true((y:narrow(2, 1, 16000) - tone):abs():max():item() <= most, ending)
         end)
      end
      shell.with_folder(function(folder)
         local whole = torch.arange(-300, 300, {device = "cpu"}):to "int16":view(1, -1) * 100
         audio.save(folder .. "/x.flac", whole, 8000)
         assert.is_true(torch.equal(whole, (audio.load(folder .. "/x.flac", {normalize = false}))))
      end)
   end)

   it("refuses invalid arguments", function()
      assert.raises('format: expected aif, aiff, au, caf, flac, mp3, ogg, opus, vorbis, w64, wav, got "xyz"',
         function() audio.save("/tmp/x.xyz", x, 8000) end)
      assert.raises("src: expected a waveform of shape (channels, frames), got a float32 tensor of shape (0)",
         function() audio.save("/tmp/x.wav", torch.zeros(0), 8000) end)
      assert.raises("audio.save: src: expected uint8, int16, int32, float32 or float64, got an int64 tensor",
         function() audio.save("/tmp/x.wav", torch.arange(4):view(1, 4), 8000) end)
      assert.raises("audio.save: sample_rate: expected a positive number of frames a second, got 0",
         function() audio.save("/tmp/x.wav", x, 0) end)
      assert.raises("audio.save: bits_per_sample: a WAV file has no PCM_S of 8 bits",
         function() audio.save("/tmp/x.wav", x, 8000, {encoding = "PCM_S", bits_per_sample = 8}) end)
      assert.raises("audio.save: src: expected samples that are numbers, got \"NaN\"",
         function() audio.save("/tmp/x.wav", x / 0 * 0, 8000) end)
      assert.raises("audio.save: /none/x.wav: ", function() audio.save("/none/x.wav", x, 8000) end)
      assert.raises("audio.load: /tmp: Is a directory", function() audio.load "/tmp" end)
   end)
end)
