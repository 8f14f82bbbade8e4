-- Tests torch.vision.utils. Grids must equal those that torchvision 0.29 has made from the same images.

local torch = require "tlua"
local shell = require "spec.support.shell"

local utils = torch.vision.utils

describe("make_grid", function()
   -- from torchvision.utils.make_grid(torch.arange(12.).view(3, 1, 2, 2), nrow=2, padding=1, pad_value=-1)[0]
   local expected <const> = {
      {-1, -1, -1, -1, -1, -1, -1}, {-1, 0, 1, -1, 4, 5, -1}, {-1, 2, 3, -1, 6, 7, -1}, {-1, -1, -1, -1, -1, -1, -1},
      {-1, 8, 9, -1, -1, -1, -1}, {-1, 10, 11, -1, -1, -1, -1}, {-1, -1, -1, -1, -1, -1, -1},
   }
   local images = torch.arange(0, 12, {dtype = "float32"}):view(3, 1, 2, 2)

   it("puts images into rows", function()
      local grid = utils.make_grid(images, 2, {padding = 1, pad_value = -1})
      assert.same({3, 7, 7}, {table.unpack(grid.shape)})
      assert.same(torch.tensor(expected):double():tolist(), grid[1]:double():tolist())
      assert.is_true(torch.equal(grid, utils.make_grid({images[1], images[2], images[3]}, 2, 1, false, nil, false, -1)))
   end)

   it("stretches values", function()
      local grid = utils.make_grid(images, 3, {padding = 0, normalize = true})
      assert.same({0, 1}, {grid:min():item(), grid:max():item()})
      local each = utils.make_grid(images, 3, {padding = 0, normalize = true, scale_each = true})
      assert.same({{0.0, 0.0, 0.0}}, {each:select(2, 1)[1][{{1, -1, 2}}]:double():tolist()})
   end)

   it("refuses what is no batch", function()
      assert.matches("vision.utils.make_grid: tensor: expected images of shape",
         select(2, pcall(utils.make_grid, torch.zeros(3))))
      assert.matches("vision.utils.make_grid: tensor: expected images of shape",
         select(2, pcall(utils.make_grid, torch.zeros(0, 3, 2, 2))))
      assert.matches("nrow: expected at least 1, got 0", select(2, pcall(utils.make_grid, images, 0)))
   end)
end)

describe("save_image", function()
   it("writes rounded values", function()
      shell.with_folder(function(folder)
         local path = folder .. "/a.png"
         utils.save_image(torch.tensor({0, 0.5, 1, 2}):view(1, 1, 2, 2), path)
         assert.same({{0, 128}, {255, 255}}, torch.load(path)[1]:tolist())
      end)
   end)
end)

describe("drawing", function()
   local saved = torch.load "rocks/vision/spec/fixtures/draw.pt"
   local image = saved.image

   it("gives torchvision's pictures", function()
      assert.is_true(torch.equal(saved.boxed, utils.draw_bounding_boxes(image, saved.boxes, {width = 2})))
      assert.is_true(torch.equal(saved.filled,
         utils.draw_bounding_boxes(image, saved.boxes, {colors = "red", fill = true})))
      local float = image:float() / 255
      assert.is_true(torch.allclose(saved.boxed_float, utils.draw_bounding_boxes(float, saved.boxes, {width = 2})))
      assert.is_true(torch.equal(saved.masked, utils.draw_segmentation_masks(image, saved.masks, 0.6)))
      assert.is_true(torch.allclose(saved.masked_float,
         utils.draw_segmentation_masks(float, saved.masks, {colors = {"red", "#00ff80"}})))
      for _, radius in ipairs {1, 2, 3, 5, 8} do
         assert.is_true(torch.equal(saved["dots" .. radius],
            utils.draw_keypoints(image, saved.points, {colors = {255, 0, 0}, radius = radius})))
      end
      assert.is_true(torch.equal(saved.flowed, utils.flow_to_image(saved.flow)))
      assert.is_true(torch.equal(saved.flowed, utils.flow_to_image(saved.flow:unsqueeze(1))[1]))
   end)

   it("joins visible keypoints by lines", function()
      local black = torch.zeros(3, 9, 9, {dtype = "uint8"})
      local options = {connectivity = {{1, 2}}, radius = 0, width = 1}
      local points = torch.tensor {{{1.0, 4}, {7.0, 4}}}
      assert.same({0, 255, 255, 255, 255, 255, 255, 255, 0},
         utils.draw_keypoints(black, points, options)[{1, 5}]:tolist())
      options.visibility = torch.tensor {{1, 0}}
      assert.same({0, 255, 0, 0, 0, 0, 0, 0, 0}, utils.draw_keypoints(black, points, options)[{1, 5}]:tolist())
   end)

   it("refuses what does not fit", function()
      local function message_of(fn, ...) return select(2, pcall(fn, ...)) end
      for expected, message in pairs {
         ["draw_bounding_boxes: image: expected a uint8 or floating tensor of shape %(3 or 1, H, W%)"] =
            message_of(utils.draw_bounding_boxes, torch.zeros(2, 4, 4), saved.boxes),
         ["draw_bounding_boxes: boxes%[1%]: expected x1 <= x2 and y1 <= y2, got %(4, 0, 2, 2%)"] =
            message_of(utils.draw_bounding_boxes, image, torch.tensor {{4, 0, 2, 2}}),
         ["draw_bounding_boxes: colors: expected at least 3 colours, got 1"] =
            message_of(utils.draw_bounding_boxes, image, saved.boxes, {colors = {"red"}}),
         ['colors: expected colours such as "red", "#ff0000" or {255, 0, 0}, got "rot"'] =
            message_of(utils.draw_bounding_boxes, image, saved.boxes, {colors = "rot"}),
         ["draw_segmentation_masks: masks: expected booleans of shape %(n, 20, 24%)"] =
            message_of(utils.draw_segmentation_masks, image, torch.zeros(20, 24)),
         ["draw_keypoints: connectivity%[1%]: expected two positions from 1 to 3"] =
            message_of(utils.draw_keypoints, image, saved.points, {connectivity = {{0, 1}}}),
         ["flow_to_image: flow: expected a float32 tensor of shape"] =
            message_of(utils.flow_to_image, torch.zeros(3, 4, 4)),
         ["flow_to_image: flow: expected finite numbers, got nan or inf"] =
            message_of(utils.flow_to_image, torch.full({2, 3, 3}, 0 / 0)),
         ["draw_bounding_boxes: boxes%[1%]: expected x1 <= x2 and y1 <= y2, got %(2147483648, "] =
            message_of(utils.draw_bounding_boxes, image, torch.tensor {{1e30, 0, 2, 2}}),
         ["make_grid: tensor: expected images of one shape, got nil"] =
            message_of(utils.make_grid, {torch.zeros(3, 2, 2), nil, torch.zeros(3, 2, 2)}),
         ["draw_bounding_boxes: boxes: expected finite numbers, got nan or inf"] =
            message_of(utils.draw_bounding_boxes, image, torch.tensor {{0 / 0, 0, 2, 2}}),
         ["draw_keypoints: keypoints: expected finite numbers, got nan or inf"] =
            message_of(utils.draw_keypoints, image, torch.tensor {{{0 / 0, 0.0}}}),
      } do
         assert.matches(expected, message)
      end
   end)
end)

describe("torch.vision.io", function()
   local vio = torch.vision.io
   -- a red, a green, a blue and a grey pixel, and their opacity
   local image = torch.tensor({255, 0, 0, 90, 0, 255, 0, 90, 0, 0, 255, 90, 255, 7, 0, 8}, {dtype = "uint8"})
      :view(4, 2, 2)

   it("reads what it writes", function()
      local path = os.tmpname()
      vio.write_png(image, path)
      assert.close(image, vio.read_image(path), 0)
      assert.close(image, vio.decode_png(vio.read_file(path)), 0)
      vio.write_jpeg(torch.full({3, 8, 8}, 90, {dtype = "uint8"}), path, 95)
      assert.close(torch.full({1, 8, 8}, 90, {dtype = "uint8"}), vio.decode_jpeg(vio.read_file(path), "GRAY"), 0)
      vio.write_file(path, image:flatten())
      assert.close(image:flatten(), vio.read_file(path), 0)
      os.remove(path)
   end)

   local red <const> = {{{255, 0}, {0, 9}}, {{0, 255}, {0, 8}}, {{0, 0}, {255, 7}}}

   -- Pillow 12 has written the files of the next two tests with lossless compression.
   it("reads WebP files", function()
      local files = {
         [3] = "\x32\0\0\0WEBPVP8L\x25\0\0\0\x2f\x01\x40\0\0\x1f\x20\x24\x20\x68\xfe\x1f\x76\x43\x48\x90\x90\xfd\xff"
            .. "\x57\x21\x01\x41\xf2\x7f\xb1\xf9\x0f\x7c\x72\x54\x70\x03\x86\x88\xfe\x87\0",
         [4] = "\x3e\0\0\0WEBPVP8L\x31\0\0\0\x2f\x01\x40\0\x10\x1f\x20\x16\x4c\xf6\xe6\x0f\x9c\x86\x90\x80\x20"
            .. "\xfa\x3f\x98\x90\x80\x20\xf9\xbf"
            .. "\x98\x90\x80\xa8\xa6\xb9\x64\xbd\x30\x73\xc6\x2a\xa1\xa6\x6d\x03\x16\xbf\x49\x47\x44\xff"
            .. "\x83\x03\0",
      }
      for channels = 3, 4 do
         local bytes = torch.io.bytes("RIFF" .. files[channels])
         local ok, read = pcall(vio.decode_webp, bytes)
         if not ok and read:find("libwebp, which was not found", 1, true) then return pending "needs libwebp" end
         assert.same(red, read:narrow(1, 1, 3):tolist())
         assert.same(red, vio.decode_image(bytes, "RGB"):tolist())
         if channels == 4 then assert.same({{255, 128}, {7, 200}}, read[4]:tolist()) end
         assert.raises("WebP: the file is damaged", function() vio.decode_webp(bytes:narrow(1, 1, 40)) end)
      end
   end)

   it("reads PNG files of 16 bits", function()
      local function chunk(kind, content)
         return string.pack(">s4", content):sub(1, 4) .. kind .. content
            .. string.pack(">I4", torch.io.crc32(kind .. content))
      end
      local function file(colour, data)
         local header = string.pack(">I4I4BBBBB", 2, 2, 16, colour, 0, 0, 0)
         return torch.io.bytes("\x89PNG\r\n\x1a\n" .. chunk("IHDR", header) .. chunk("IDAT", data)
            .. chunk("IEND", ""))
      end
      -- Two rows with the filters Sub and Paeth, compressed by Python's zlib.
      local data = "\x78\xda\x63\x64\x60\x60\xd4\xf9\xff\x9f\xf9\xc5\xbf\xcb\x8c\x1c\x2c\x0c\xac\x0c\x37\xe6\x3a\xfe"
         .. "\x11\x67\x64\x64\xfa\x05\0\x72\x12\x08\xc2"
      local colours = vio.decode_png(file(2, data))
      assert.equal("uint16", colours.dtype)
      assert.same({{{0, 1000}, {5, 65535}}, {{300, 65535}, {260, 0}}, {{65535, 7}, {40000, 513}}}, colours:tolist())
      -- The expected grey values are libpng's.
      assert.same({{{7656, 38767}, {4720, 19646}}}, vio.decode_image(file(2, data), "GRAY"):tolist())
      assert.same(65535, vio.decode_png(file(2, data), "RGBA")[{4, 1, 1}]:item())
      assert.raises("PNG: chunk IDAT is damaged", function()
         local bytes = file(2, data)
         bytes[60] = 0
         vio.decode_png(bytes)
      end)
      assert.raises("decode_png: PNG: ", function() vio.decode_png(file(0, data)) end)
      -- This header tells zlib to wait for a dictionary, which never comes.
      assert.raises("end too early", function() vio.decode_png(file(2, "\x78\x3f\1\2\3\4\5\6")) end)
      assert.raises("PNG: the file ends too early", function() vio.decode_png(file(2, data):narrow(1, 1, 70)) end)
   end)

   it("reads GIF files", function()
      local head = "GIF89a\3\0\3\0\x81\0\0\1\2\3\50\60\70\100\110\120\200\210\220"
      local first = "\x21\xf9\4\5\0\0\0\0\x2c\0\0\0\0\3\0\3\0\0\8\x0c\0\1\4\x10\x30\x40\x40\0\0\8\3\2\0"
      local second = "\x21\xf9\4\5\0\0\0\0\x2c\0\0\0\0\3\0\3\0\0\8\x0b\0\7\8\4\x10\0\x80\x80\x83\1\1\0"
      local frames = vio.decode_gif(torch.io.bytes(head .. first .. second .. ";"))
      assert.same({{1, 50, 100}, {200, 100, 50}, {1, 1, 1}}, frames[{1, 1}]:tolist())
      -- The first frame remains visible where the second row of the second frame is transparent.
      assert.same({{200, 200, 200}, {200, 50, 50}, {100, 100, 100}}, frames[{2, 1}]:tolist())
      local one = vio.decode_image(torch.io.bytes(head .. first .. ";"), "GRAY_ALPHA")
      assert.same({2, 3, 3}, {table.unpack(one.shape)})
      for message, text in pairs {
         ["GIF: the file ends too early"] = head .. first,
         ["GIF: expected 9 pixels, got 0"] = head .. first:gsub("\8\x0c.*", "\8\1\0\0") .. ";",
         ["GIF: the file has no image"] = head .. ";",
         ["GIF: an image of 3 x 3 pixels at (0, 1) does not fit into 3 x 3"] =
            head .. first:gsub("\x2c\0", "\x2c\1") .. ";",
         ["GIF: expected a block, got a byte 9"] = head .. "\9",
      } do
         assert.raises("vision.io.decode_gif: " .. message, function() vio.decode_gif(torch.io.bytes(text)) end)
      end
      -- A small file asks for five frames of 3000 x 3000 pixels: 135,000,000 bytes.
      local canvas = head:gsub("\3\0\3\0", "\xb8\x0b\xb8\x0b", 1)
      local large = torch.io.bytes(canvas .. first:rep(5) .. ";")
      assert.raises("vision.io.decode_gif: GIF: 3 frames of 3000 x 3000 pixels have more than 67108864 bytes; "
         .. "decode_gif(input, {max_bytes = n}) decodes up to n bytes", function() vio.decode_gif(large) end)
      assert.raises("vision.io.decode_image: GIF: 3 frames", function() vio.decode_image(large) end)
      local small = torch.io.bytes(head .. first .. second .. ";")
      assert.raises("GIF: 2 frames of 3 x 3 pixels have more than 53 bytes",
         function() vio.decode_gif(small, {max_bytes = 53}) end)
      assert.same(54, vio.decode_gif(small, {max_bytes = 54}):numel())
      assert.raises("max_bytes", function() vio.decode_gif(small, {max_bytes = 0}) end)
   end)

   it("converts images to the form that is asked for", function()
      local function read(picture, mode) return vio.decode_image(vio.encode_png(picture), mode) end
      local colours, opacity = image:narrow(1, 1, 3), image:narrow(1, 4, 1)
      local grey = torch.tensor({76, 149, 29, 90}, {dtype = "uint8"}):view(1, 2, 2)
      local opaque = torch.full({1, 2, 2}, 255, {dtype = "uint8"})
      assert.close(colours, read(image, "RGB"), 0)
      assert.close(image, read(image, vio.ImageReadMode.RGB_ALPHA), 0)
      assert.close(grey, read(image, "gray"), 0)
      assert.close(torch.cat {grey, opacity}, read(image, "GRAY_ALPHA"), 0)
      assert.close(torch.cat {colours, opaque}, read(colours, "RGB_ALPHA"), 0)
      assert.close(torch.cat {colours, opaque}, read(colours, vio.ImageReadMode.RGBA), 0)
      assert.close(torch.cat {colours, opaque}, read(colours, "RGBA"), 0)
      assert.close(torch.cat {grey, grey, grey}, read(grey, "RGB"), 0)
      assert.close(torch.cat {grey, opaque}, read(grey, "GRAY_ALPHA"), 0)
      assert.close(grey, read(torch.cat {grey, opacity}, "GRAY"), 0)
      assert.close(torch.cat {grey, grey, grey, opacity}, read(torch.cat {grey, opacity}, "RGB_ALPHA"), 0)
   end)

   it("names the argument or the file that does not fit", function()
      local png = vio.encode_png(image)
      for message, fn in pairs {
         ["read_image: /none.png: No such file"] = function() vio.read_image "/none.png" end,
         ["mode: expected \"UNCHANGED\""] = function() vio.decode_image(png, "rgbx") end,
         ["decode_jpeg: input: expected the bytes of a JPEG file"] = function() vio.decode_jpeg(png) end,
         ["decode_png: input: expected the bytes"] = function() vio.decode_png(torch.zeros(3)) end,
         ["neither a PNG, a JPEG nor a WebP"] = function() vio.decode_image(png:narrow(1, 2, 9)) end,
         ["compression_level: expected an integer from 0 to 9"] = function() vio.encode_png(image, 10) end,
         ["quality: expected an integer"] = function() vio.encode_jpeg(image:narrow(1, 1, 3), 101) end,
         ["write_jpeg: a JPEG file takes an image"] = function() vio.write_jpeg(image, "a.jpg") end,
         ["write_file: data: expected a uint8 tensor"] = function() vio.write_file("a", image) end,
      } do
         assert.raises(message, fn)
      end
   end)
end)
