-- Tests torch.utils.tensorboard. The package's own reader reads the event files back. Checksums and PNG files are
-- compared with values from their standards.

local torch = require "tlua"
local shell = require "spec.support.shell"
local wire = require "tlua.tensorboard.wire"
local board = torch.utils.tensorboard

-- Calls fn with a writer. Returns the values that fn has written, indexed by tag, and the list of events.
local function written(fn)
   local values, events = {}, nil
   shell.with_folder(function(folder)
      local writer = board.SummaryWriter(folder .. "/a'b")
      fn(writer, folder)
      writer:close()
      events = assert(board.read(writer.path))
   end)
   for _, event in ipairs(events) do
      for _, value in ipairs(event.values) do
         value.step = event.step
         values[value.tag] = values[value.tag] or {}
         table.insert(values[value.tag], value)
      end
   end
   return values, events
end

describe("checksums", function()
   it("equal those in RFC 3720", function()
      assert.equal(0xe3069283, wire.crc32c "123456789")
      assert.equal(0x8a9136aa, wire.crc32c(("\0"):rep(32)))
      assert.equal(0x62a8ab43, wire.crc32c(("\xff"):rep(32)))
      assert.equal(0, wire.crc32c "")
   end)

   it("are masked as in TensorFlow's records", function()
      local c = 0xe3069283
      local rotated = (c >> 15 | c << 17) & 0xffffffff
      assert.equal((rotated + 0xa282ead8) & 0xffffffff, wire.masked_crc "123456789")
   end)
end)

describe("a SummaryWriter", function()
   it("writes curves", function()
      local values, events = written(function(writer)
         for step = 1, 25 do writer:add_scalar("loss", 1 / step, step) end
         writer:add_scalar("last", torch.tensor(2.5))
      end)
      assert.equal("brain.Event:2", events[1].file_version)
      assert.equal(25, #values.loss)
      assert.equal(4, values.loss[4].step)
      assert.equal(0.25, values.loss[4].simple_value)
      assert.equal(2.5, values.last[1].simple_value)
   end)

   it("writes histograms, whose buckets hold all values", function()
      local values = written(function(writer) writer:add_histogram("h", torch.tensor {-1.0, 0.5, 0.5, 2.0}, 3) end)
      local h = values.h[1].histogram
      assert.same({-1, 2, 4, 2, 5.5}, {h.min, h.max, h.num, h.sum, h.sum_squares})
      local sum, before = 0, -math.huge
      for i, count in ipairs(h.bucket) do
         sum = sum + count
         assert.is_true(h.bucket_limit[i] > before)
         before = h.bucket_limit[i]
         if count == 2 then assert.is_true(before >= 0.5 and before <= 0.55) end
      end
      assert.equal(4, sum)
      assert.equal(#h.bucket, #h.bucket_limit)
      assert.equal(0, h.bucket[1])
   end)

   it("writes pictures as PNG", function()
      local values = written(function(writer)
         local image = torch.zeros(3, 2, 4)
         image[{1}] = 1
         writer:add_image("red", image)
         writer:add_image("red_mask", image:long())
         writer:add_images("grid", torch.zeros(9, 1, 2, 2))
      end)
      local red = values.red[1].image
      assert.equal(red.png, values.red_mask[1].image.png)
      assert.same({2, 4}, {red.height, red.width})
      assert.equal("\x89PNG\r\n\x1a\n", red.png:sub(1, 8))
      local w, h, depth, colour = (">I4I4BB"):unpack(red.png, 17)
      assert.same({4, 2, 8, 2}, {w, h, depth, colour})
      assert.is_truthy(red.png:find(("\0" .. ("\xff\0\0"):rep(4)):rep(2), 1, true))
      assert.same({4, 16}, {values.grid[1].image.height, values.grid[1].image.width})
   end)

   it("takes PyTorch's keyword arguments in all methods", function()
      local values, events = written(function(writer, folder)
         local image = torch.zeros(2, 4, 3)
         writer:add_scalar("x", 1, {global_step = 7, walltime = 12.25})
         writer:add_scalars("many", {step = 1}, {global_step = 8})
         writer:add_image("hwc", image:long(), {dataformats = "HWC"})
         writer:add_image("timed", image, 9, 12.5, "HWC")
         writer:add_images("nhwc", image:unsqueeze(1), {dataformats = "NHWC", global_step = 3})
         -- the weight 2 counts the second prediction twice
         writer:add_pr_curve("pr", {0, 1}, {0.2, 0.9}, {num_thresholds = 2, weights = {1, 2}})
         writer:add_embedding(torch.ones(2, 2), {"a", "b"}, nil, 5, "points")
         assert.equal("a\nb\n", shell.read(folder .. "/a'b/00005/points/metadata.tsv"))
         writer:add_hparams({lr = 0.1}, {loss = 2}, {lr = {0.1, 0.25}}, "run", 4)
         writer:flush()
         local run = board.read(writer.others.run.path)
         assert.equal(4, run[#run].step)
         local file = shell.read(writer.others.run.path)
         -- a google.protobuf.ListValue (field 5) of two values (field 1), each a double (field 2)
         local members = "\x0a\x09\x11" .. ("<d"):pack(0.1) .. "\x0a\x09\x11" .. ("<d"):pack(0.25)
         assert.is_truthy(file:find("\x2a\x16" .. members, 1, true))
         assert.raises("unknown option dataformat; did you mean dataformats?",
            function() writer:add_image("a", image, {dataformat = "HWC"}) end)
         assert.raises("add_images: dataformats: expected NCHW or NHWC",
            function() writer:add_images("a", image, 1, {dataformats = "HWC"}) end)
         assert.raises("add_histogram: bins: expected", function() writer:add_histogram("a", {1}, 1, "auto") end)
         assert.raises("lr2 is no hyperparameter", function() writer:add_hparams({}, {}, {lr2 = {1}}) end)
         assert.raises("expected as many weights as predictions, got 1 and 2",
            function() writer:add_pr_curve("a", {0, 1}, {0, 1}, {weights = {1}}) end)
         assert.raises("num_thresholds: expected at least 2", function() writer:add_pr_curve("a", {}, {}, 1, 1) end)
      end)
      assert.same({7, 3}, {values.x[1].step, values.nhwc[1].step})
      assert.same({12.25, 12.5}, {events[2].wall_time, events[4].wall_time})
      for _, tag in ipairs {"hwc", "timed", "nhwc"} do
         assert.same({2, 4}, {values[tag][1].image.height, values[tag][1].image.width})
      end
      assert.close({2, 0, 1, 0, 0, 1, 0, 2, 2 / 3, 0, 1, 0}, values.pr[1].floats, 1e-6)
   end)

   it("writes figures and sounds", function()
      local values = written(function(writer)
         writer:add_figure("loss", torch.utils.plot.curves({3, 2, 1}))
         writer:add_audio("beep", torch.tensor {0, 0.5, -1, 2}, 3, {sample_rate = 8000})
         writer:add_audio("stereo", torch.zeros(2, 5))
         assert.raises("add_figure", "torch.utils.plot", function() writer:add_figure("a", 3) end)
         assert.raises("add_audio", "(1, L)", function() writer:add_audio("a", torch.zeros(3, 5)) end)
         assert.raises("add_audio", "unknown option rate",
            function() writer:add_audio("a", torch.zeros(5), 1, {rate = 3}) end)
      end)
      local image = values.loss[1].image
      local width, height = (">I4I4"):unpack(image.png, 17)
      assert.same({image.width, image.height}, {width, height})
      assert.equal("\x89PNG\r\n\x1a\n", image.png:sub(1, 8))
      local beep = values.beep[1].audio
      assert.same({8000, 1, 4, 3}, {beep.sample_rate, beep.channels, beep.frames, values.beep[1].step})
      local riff, size, format, length, kind, channels, rate = ("<c4I4c8I4I2I2I4"):unpack(beep.wav)
      assert.equal("RIFF", riff)
      assert.equal(#beep.wav - 8, size)
      assert.equal("WAVEfmt ", format)
      assert.same({16, 1, 1, 8000}, {length, kind, channels, rate}) -- format 1 in a WAV file means PCM
      local samples = {("<i2i2i2i2"):unpack(beep.wav, 45)}
      assert.same({0, 16383, -32767, 32767}, {table.unpack(samples, 1, 4)})
      assert.same({2, 5}, {values.stereo[1].audio.channels, values.stereo[1].audio.frames})
   end)

   it("writes texts, PR curves, hyperparameters, graphs and embeddings", function()
      local values, events = written(function(writer, folder)
         writer:add_text("note", "*hello*", 2)
         writer:add_pr_curve("pr", {0, 1, 1}, {0.2, 0.4, 0.9}, 1, {num_thresholds = 3})
         writer:add_graph(torch.nn.Linear(2, 1), torch.ones(1, 2))
         writer:add_embedding(torch.tensor {{1.0, 2}, {3, 4}}, {metadata = {"a", "b"}})
         writer:add_hparams({lr = 0.1, name = "x", flag = true}, {accuracy = 0.5}, {run_name = "run"})
         writer:flush()
         local dir = folder .. "/a'b/"
         assert.equal("1.0\t2.0\n3.0\t4.0\n", shell.read(dir .. "00000/default/tensors.tsv"))
         assert.equal("a\nb\n", shell.read(dir .. "00000/default/metadata.tsv"))
         assert.matches("metadata_path", shell.read(dir .. "projector_config.pbtxt"))
         local tags = {}
         for _, event in ipairs((board.read(writer.others.run.path))) do
            for _, value in ipairs(event.values) do tags[value.tag] = value.plugin or true end
         end
         assert.same({["_hparams_/experiment"] = "hparams", accuracy = true,
            ["_hparams_/session_start_info"] = "hparams",
            ["_hparams_/session_end_info"] = "hparams"}, tags)
      end)
      assert.same({"*hello*"}, values["note/text_summary"][1].strings)
      assert.equal("text", values["note/text_summary"][1].plugin)
      -- The expected values are six rows: true positives, false positives, true negatives, false negatives, precision
      -- and recall. Each row has a value for each of the thresholds 0, 0.5 and 1.
      assert.close({2, 1, 0, 1, 0, 0, 0, 1, 1, 0, 1, 2, 2 / 3, 1, 0, 1, 0.5, 0}, values.pr[1].floats, 1e-6)
      local graph
      for _, event in ipairs(events) do graph = graph or event.graph_def end
      assert.matches("AddmmBackward0_%d+", graph)
      assert.matches("weight", graph)
   end)

   -- These files were also opened in TensorBoard, which showed the same points, labels and pictures.
   it("writes embeddings with several labels and pictures each", function()
      written(function(writer, folder)
         local points = torch.tensor {{1.5, -2}, {0.1, 4}, {1e-30, 0}}
         writer:add_embedding(points, {tag = 'a/b "c" %', global_step = 12})
         local rows = {{"x", 1}, {"y\tz", 2.5}, {"w", true}}
         local pictures = torch.zeros(3, 1, 2, 4)
         pictures[{2}] = 1
         for _ = 1, 2 do
            writer:add_embedding(points, {metadata = rows, metadata_header = {"name", "n"}, label_img = pictures})
         end
         local dir = folder .. "/a'b/"
         local function quote(text) return '"' .. text .. '"' end
         -- PyTorch's class gives the same names. A name that occurs twice appears once.
         assert.equal(table.concat({
            "embeddings {",
            "  tensor_name: " .. quote 'a/b \\"c\\" %:00012',
            "  tensor_path: " .. quote '00012/a%2fb \\"c\\" %25/tensors.tsv',
            "}",
            "embeddings {",
            "  tensor_name: " .. quote "default:00000",
            "  tensor_path: " .. quote "00000/default/tensors.tsv",
            "  metadata_path: " .. quote "00000/default/metadata.tsv",
            "  sprite {",
            "    image_path: " .. quote "00000/default/sprite.png",
            "    single_image_dim: 4",
            "    single_image_dim: 2",
            "  }",
            "}\n",
         }, "\n"), shell.read(dir .. "projector_config.pbtxt"))
         local function float32(x) return (string.unpack("f", string.pack("f", x))) end
         -- Numbers are compared instead of texts, since versions of Lua print different numbers of digits.
         local read = {}
         for line in shell.read(dir .. '00012/a%2fb "c" %25/tensors.tsv'):gmatch "[^\n]+" do
            local x, y = line:match "^(%S+)\t(%S+)$"
            read[#read + 1] = {float32(tonumber(x)), float32(tonumber(y))}
         end
         assert.same({{1.5, -2.0}, {float32(0.1), 4.0}, {float32(1e-30), 0.0}}, read)
         assert.equal("name\tn\nx\t1\ny z\t2.5\nw\ttrue\n", shell.read(dir .. "00000/default/metadata.tsv"))
         local sprite = shell.read(dir .. "00000/default/sprite.png")
         assert.same({8, 4, 8, 2}, {table.unpack({(">I4I4BB"):unpack(sprite, 17)}, 1, 4)})
         local black, white = ("\0"):rep(12), ("\xff"):rep(12)
         assert.is_truthy(sprite:find(("\0" .. black .. white):rep(2) .. ("\0" .. black:rep(2)):rep(2), 1, true))
      end)
   end)

   it("records the time of events", function()
      local before = torch.io.time()
      local _, events = written(function(writer)
         for i = 1, 100 do writer:add_scalar("x", i, i) end
         writer:add_scalar("x", 0, 0, 12.25)
      end)
      for i = 2, 101 do assert.is_true(events[i].wall_time >= before and events[i].wall_time <= torch.io.time()) end
      assert.is_true(math.abs(before - os.time()) < 100)
      assert.equal(12.25, events[102].wall_time)
   end)

   it("leaves a readable file when the process is killed", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", ([[
            local w = torch.utils.tensorboard.SummaryWriter %q
            for i = 1, 1005 do w:add_scalar("x", i, i) end
            print(w.path)
            io.stdout:flush()
            os.execute "kill -9 $PPID"]]):format(folder .. "/log"))
      local output = shell.run(shell.start() .. " " .. folder .. "/a.lua")
      local path = output:match "(%S+tfevents%S+)"
      local events = board.read(path)
      assert.is_true(#events >= 1000, #events)
      assert.equal(#events - 1, events[#events].values[1].simple_value)
      local text = shell.read(path)
      shell.write(path, text:sub(1, -8))
      local fewer, message = board.read(path)
      assert.equal(#events - 1, #fewer)
      assert.equal("the last record is cut off", message)
      shell.write(path, text:sub(1, 100) .. "?" .. text:sub(102))
      assert.matches("damaged", select(2, board.read(path)))
   end))

   it("continues when the disk is full, after one message", function()
      local full = shell.run("test -w /dev/full && echo yes"):find "yes"
      if not full then return pending "needs /dev/full" end
      shell.with_folder(function(folder)
         shell.write(folder .. "/a.lua", ([[
            local w = torch.utils.tensorboard.SummaryWriter %q
            w.file = io.open("/dev/full", "wb")
            w.file:setvbuf "no"
            for i = 1, 100 do w:add_scalar("x", i, i) end
            -- A file has the path of the folder, so the folder cannot be created.
            io.open(w.log_dir .. "/00000", "wb"):close()
            w:add_embedding(torch.ones(2, 2))
            print "went on"]]):format(folder))
         local output = shell.ok(shell.start() .. " " .. folder .. "/a.lua")
         assert.matches("SummaryWriter: .*/00000/default: .*; the embedding is not written", output)
         assert.equal(1, select(2, output:gsub("nothing more is written", "")))
         assert.matches("went on", output)
      end)
   end)

   it("reads files that leave out zeros, like those of PyTorch", shell.in_folder(function(folder)
      local protobuf = require "tlua.utils.protobuf"
      local bytes, double, float = protobuf.bytes, protobuf.double, protobuf.float
      local function event(value) return wire.record(double(1, 1.0) .. bytes(5, bytes(1, value))) end
      -- a histogram of zeros: min, max, sum and sum_squares are left out
      local histogram = double(3, 3.0) .. protobuf.packed(6, "<d", {0.0, 1e-12}) .. protobuf.packed(7, "<d", {0, 3})
      shell.write(folder .. "/zeros", event(bytes(1, "h") .. bytes(5, histogram))
         .. event(bytes(1, "s") .. float(2, 0.0))
         .. event(bytes(1, "d") .. float(2, 1.0) .. bytes(9, bytes(3, "a description")))
         .. event(bytes(1, "i") .. bytes(4, "")))
      local events, message = board.read(folder .. "/zeros")
      assert.is_nil(message)
      assert.same({min = 0.0, max = 0.0, num = 3.0, sum = 0.0, sum_squares = 0.0, bucket_limit = {0.0, 1e-12},
         bucket = {0.0, 3.0}}, events[1].values[1].histogram)
      assert.equal(0.0, events[2].values[1].simple_value)
      assert.is_nil(events[3].values[1].plugin)
      assert.same({height = 0, width = 0, png = ""}, events[4].values[1].image)
   end))

   it("refuses values that it cannot write", function()
      written(function(writer)
         assert.raises("add_scalar: tag: expected a string, got 3", function() writer:add_scalar(3, 1) end)
         assert.raises("add_scalar: tag: expected a name", function() writer:add_scalar("", 1) end)
         assert.raises('scalar_value: expected a number or a tensor of one, got "x"',
            function() writer:add_scalar("a", "x") end)
         assert.raises("global_step: expected an integer, got 1.5", function() writer:add_scalar("a", 1, 1.5) end)
         assert.raises("expected finite numbers", function() writer:add_histogram("a", {0 / 0}) end)
         assert.raises('add_scalars: tag_scalar_dict["y"]: expected a number or a tensor of one, got "b"',
            function() writer:add_scalars("a", {x = 1, y = "b"}) end)
         assert.raises("add_scalars: tag_scalar_dict: expected strings as names, got 1",
            function() writer:add_scalars("a", {1}) end)
         assert.raises("add_scalars: main_tag: expected a name", function() writer:add_scalars("", {x = 1}) end)
         assert.raises('add_hparams: metric_dict["m"]: expected a number or a tensor of one, got "b"',
            function() writer:add_hparams({lr = 1}, {m = "b"}) end)
         assert.raises("add_hparams: hparam_dict: expected strings as names, got 1",
            function() writer:add_hparams({1, a = 2}, {}) end)
         assert.is_nil(writer.others) -- a call that fails has created no curve
         assert.raises("add_images: img_tensor: expected at least one image",
            function() writer:add_images("a", torch.ones(0, 3, 4, 4)) end)
         assert.raises("floating-point numbers from 0 to 1, integers 0 and 1, or uint8, got an int64 tensor",
            function() writer:add_image("a", torch.full({3, 4, 4}, 2):long()) end)
         assert.raises("expected 1, 3 or 4 channels, got 2",
            function() writer:add_image("a", torch.ones(2, 3, 3)) end)
         local points = torch.ones(2, 3)
         local function refuses(message, matrix, options)
            assert.raises("add_embedding: " .. message, function() writer:add_embedding(matrix, options) end)
         end
         refuses("mat: expected a tensor (N, D), got a float32 tensor of shape (2)", torch.ones(2))
         refuses("metadata: expected a list of labels, got 3", points, 3)
         refuses("metadata: expected a list of labels, got 3", points, {metadata = 3})
         refuses("metadata: expected 2 labels, got 1", points, {metadata = {"a"}})
         refuses("metadata[2]: expected a list of 2 values, got ", points,
            {metadata = {{1, 2}, {1}}, metadata_header = {"a", "b"}})
         refuses("metadata_header: expected none without metadata", points, {metadata_header = {"a"}})
         refuses("label_img: expected 2 images, got 3", points, {label_img = torch.ones(3, 1, 2, 2)})
         refuses("label_img: expected 1 or 3 channels", points, {label_img = torch.ones(2, 2, 2, 2)})
         refuses("tag: expected a string, got 3", points, {tag = 3})
         refuses("unknown option labels", points, {labels = {"a", "b"}})
         refuses("global_step: expected an integer, got 1.5", points, {global_step = 1.5})
         assert.is_nil(io.open(writer.log_dir .. "/projector_config.pbtxt"))
         writer:close()
         assert.raises("it was closed", function() writer:add_scalar("a", 1) end)
      end)
      assert.raises("SummaryWriter: log_dir: /dev/null/x: ", function() board.SummaryWriter "/dev/null/x" end)
   end)
end)
