-- Tests figures as text and as files. The files are compared with files that Python's zlib and struct have made from
-- the same pixels.
local torch = require "tlua"
local shell = require "spec.support.shell"
local plot = torch.utils.plot
local png = require "tlua.io.png"

local function hex(bytes) return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end

-- Saves a figure under a file name, and returns the content of the file.
local function saved(figure, name)
   return shell.with_folder(function(folder)
      local path = folder .. "/" .. name
      assert.is_true(figure:save(path) == figure)
      local file <close> = assert(io.open(path, "rb"))
      return file:read "a"
   end)
end

describe("PNG", function()
   it("has the same bytes as files of another encoder", function()
      local header = "89504e470d0a1a0a0000000d49484452"
      assert.equal(header .. "0000000200000002080000000057dd52f80000001149444154"
         .. "7801010600f9ff0000ff008040054201c079e909c40000000049454e44ae426082",
         hex(png.encode(2, 2, {"\x00\xFF", "\x80\x40"})))
      assert.equal(header .. "0000000100000001080200000090"
         .. "7753de0000000f494441547801010400fbff00010203000e00072da233ec0000000049454e44ae426082",
         hex(png.encode(1, 1, {"\1\2\3"})))
   end)

   it("begins a second block after 65,535 bytes", function()
      local rows = {}
      for y = 0, 299 do
         local bytes = {}
         for x = 0, 299 do bytes[x + 1] = string.char(x * y % 251) end
         rows[y + 1] = table.concat(bytes)
      end
      local content = png.encode(300, 300, rows)
      assert.equal(90373, #content)
      -- These bytes are the header of a block in deflate that is stored and is not the last block.
      assert.equal("\0\255\255\0\0", content:sub(44, 48))
      assert.equal(2921511532, (">I4"):unpack(content, #content - 19))
   end)

   it("is written as text by base64", function()
      assert.equal("", png.base64 "")
      assert.equal("Zg==", png.base64 "f")
      assert.equal("Zm8=", png.base64 "fo")
      assert.equal("Zm9vYmFy", png.base64 "foobar")
   end)
end)

describe("plot.curves", function()
   it("draws a line from corner to corner", function()
      local text = plot.curves({0, 1}, {columns = 10, lines = 3}):text(false)
      local first, last = text:match "┤([^\n]*)\n", text:match "  0 ┤([^\n]*)\n"
      assert.equal(10, utf8.len(first))
      assert.matches("^ +%S+$", first)
      assert.matches("^%S", last)
   end)

   it("marks axes with round numbers", function()
      local text = plot.curves({x = {0, 50, 100}, y = {0, 0.3, 1}}):text(false)
      for _, mark in ipairs {"1.0 ┤", "  0 ┤", " 100", " 20 "} do assert.matches(mark, text, 1, true) end
   end)

   it("lists names of lines with their last values in alphabetical order", function()
      local text = plot.curves {train = {3, 2}, test = torch.tensor {4.0, 2.5}}:text(false)
      assert.matches("test: 2.5   train: 2", text, 1, true)
      assert.not_matches("\27", text, 1, true)
      assert.matches("\27[38;2;", plot.curves({a = {1, 2}}):text(true), 1, true)
   end)

   it("lists curves that are named by numbers in ascending order", function()
      local svg = plot.curves({[10] = {1, 2}, [0.5] = {2, 1}, loss = {3, 3}}):svg()
      local first, second, third = svg:find(">0.5", 1, true), svg:find(">10", 1, true), svg:find(">loss", 1, true)
      assert.is_true(first < second and second < third)
   end)

   it("skips points that cannot be drawn", function()
      local gap = plot.curves({1, 0 / 0, 3, 1 / 0}, {columns = 20}):text(false)
      assert.matches("3.0 ┤", gap, 1, true)
      local log = plot.curves({0, 1e-3, 1, 1000}, {log_y = true}):text(false)
      assert.matches("1e-3 ┤", log, 1, true)
      assert.matches("1e3 ┤", log, 1, true)
      for _, values in ipairs {{}, {5}, {5, 5, 5}, {0 / 0}} do
         assert.matches("┤", plot.curves(values):text(false), 1, true)
         saved(plot.curves(values), "x.png")
      end
   end)

   it("writes SVG with a path for each line, and escapes names", function()
      local svg = saved(plot.curves({["a<b"] = {1, 2, 3}, c = {3, 0 / 0, 1}}, {title = "A & B"}), "x.svg")
      assert.matches('^<svg xmlns="http://www.w3.org/2000/svg" width="640" height="400"', svg)
      assert.matches("A &amp; B", svg, 1, true)
      assert.matches("a&lt;b", svg, 1, true)
      assert.matches('d="M64.00 360.00L344.00 198.00L624.00 36.00"', svg, 1, true)
      assert.matches('d="M64.00 36.00M624.00 360.00"', svg, 1, true)
      assert.matches("</svg>\n$", svg)
   end)

   it("writes PNG of the requested size, with the lines' colours", function()
      local file = saved(plot.curves({1, 3, 2}, {width = 300, height = 200, title = "Loss"}), "x.png")
      local width, height, bits, kind = (">I4I4BB"):unpack(file, 17)
      assert.same({300, 200, 8, 3}, {width, height, bits, kind})
      assert.matches("PLTE\255\255\255", file, 1, true)
      assert.matches("\3\3\3", file, 1, true)
   end)

   it("draws ranges that overflow, ranges close to zero, and logarithmic axes without values", function()
      local text = plot.curves({1e308, -1e308}):text(false)
      assert.matches("1e+308 ┤", text, 1, true)
      assert.matches("-1e+308 ┤", text, 1, true)
      assert.matches("2e-13", plot.curves({0, 2e-13}):text(false), 1, true)
      for _, values in ipairs {{5e-324, 0}, {1e-320, 1e-320}, {1.7e308, 1.7e308},
         {math.maxinteger, math.mininteger}} do
         assert.matches("┤", plot.curves(values):text(false))
      end
      for _, values in ipairs {{-1, -2}, {0, 0}, {}, {1.7e308}, {5e-324}} do
         local figure = plot.curves(values, {log_y = true})
         assert.matches("┤", figure:text(false))
         assert.is_nil(figure:svg():find "nan")
      end
   end)

   it("writes one question mark for a character that cannot be shown", function()
      local font = require "tlua.plot.font"
      assert.equal(font.measure "caf?", font.measure "café")
      assert.same({"a", "é", "\xFF", "b"}, font.letters "aé\xFFb")
      local svg = plot.curves({a = {1}}, {title = "a\1 <é\xFF>"}):svg()
      assert.matches(">a? &lt;é?&gt;</text>", svg, 1, true)
   end)

   it("refuses values that are not numbers and unknown options", function()
      assert.raises("utils.plot.curves: values, value 2: expected a number, got \"x\"",
         function() plot.curves {1, "x"} end)
      assert.raises("a: expected as many x as y, 2, got 1", function() plot.curves {a = {x = {1}, y = {1, 2}}} end)
      assert.raises("values, value 2: expected a number, got nil", function() plot.curves {1, nil, 3} end)
      assert.raises("a real tensor of one dimension, got a complex64 tensor",
         function() plot.curves(torch.ones(3, {dtype = "complex64"})) end)
      assert.raises("values: expected one curve, or curves by name", function() plot.curves {1, 2, loss = {1}} end)
      assert.raises("values: expected names of curves as the keys, got true", function() plot.curves {[true] = {1}} end)
      assert.raises("values: expected a curve {x = ..., y = ...}, got a table with the key z",
         function() plot.curves {x = {1}, y = {1}, z = {1}} end)
      assert.raises("columns: expected an integer from 10 to 1000, got 1000000000",
         function() plot.curves({1}, {columns = 1000000000}) end)
      assert.raises("unknown option titel; did you mean title?", function() plot.curves({1}, {titel = "x"}) end)
      assert.raises("width: expected an integer from 200 to 6000, got 5", function() plot.curves({1}, {width = 5}) end)
      assert.raises("save: expected a path that ends in .svg or .png, got \"x.gif\"",
         function() plot.curves({1}, {save = "x.gif"}) end)
      assert.raises("/nowhere/x.png: No such file", function() plot.curves({1}, {save = "/nowhere/x.png"}) end)
   end)
end)

describe("plot.image", function()
   local image = torch.tensor {{0.0, 0.5}, {1.0, 2.0}}

   it("leaves the old file unchanged if writing fails", shell.in_folder(function(folder)
      local path = folder .. "/x.svg"
      shell.write(path, "old")
      local figure = plot.curves {1, 2}
      -- In this figure, `svg` returns a table, which cannot be written to a file.
      figure.kind = {svg = function() return setmetatable({}, {}) end}
      assert.is_false((pcall(figure.save, figure, path)))
      assert.equal("old", shell.read(path))
      assert.equal("x.svg\n", shell.ok("ls -A " .. shell.quote(folder)))
   end))

   it("draws pixels as shades", function()
      assert.equal("  ▒▒\n████", plot.image(image):text(false))
      assert.equal("one\n  ▒▒\n████", plot.image(image, {title = "one"}):text(false))
      assert.equal("\n██", plot.image(torch.tensor {{0, 0}, {255, 0}}):text(false))
   end)

   it("draws two pixels in one coloured character", function()
      assert.equal("\27[38;2;0;0;0;48;2;255;255;255m▀\27[38;2;128;128;128;48;2;255;255;255m▀\27[0m",
         plot.image(image):text(true))
   end)

   it("arranges several images in a grid", function()
      local text = plot.image(torch.ones(3, 1, 1, 1), {columns = 2, gap = 1}):text(false)
      assert.equal("██  ██\n\n██", text)
      assert.equal("████\n██", plot.image(torch.ones(3, 1, 1, 1), {columns = 2, gap = 0}):text(false))
      assert.equal("██", plot.image(torch.ones(3, 1, 1)):text(false)) -- this shape stands for one coloured image
   end)

   it("writes PNG of each pixel's size and colour", function()
      local file = saved(plot.image(torch.tensor {{{1.0}}, {{0.0}}, {{0.5}}}, {scale = 2}), "x.png")
      local width, height, bits, kind = (">I4I4BB"):unpack(file, 17)
      assert.same({2, 2, 8, 2}, {width, height, bits, kind})
      assert.matches("\0\255\0\128\255\0\128\0", file, 1, true)
   end)

   it("writes SVG with the PNG inside", function()
      local figure = plot.image(image, {scale = 3})
      local svg, file = saved(figure, "x.svg"), saved(figure, "x.png")
      assert.matches('width="6" height="6"', svg, 1, true)
      assert.matches(png.base64(file), svg, 1, true)
   end)

   it("takes a range, and integers up to 255", function()
      assert.equal("  ████", plot.image(torch.tensor {{-1.0, 1, 3}}, {range = {-1, 1}}):text(false))
      assert.equal("▒▒██", plot.image(torch.tensor({{128, 255}}, {dtype = "uint8"})):text(false))
      assert.raises("range: expected two finite numbers, the lower one first",
         function() plot.image(image, {range = {1, 0}}) end)
      for _, range in ipairs {{0 / 0, 1}, {0, math.huge}, {1}, {0, 1, 2}} do
         assert.raises("range: expected two finite numbers", function() plot.image(image, {range = range}) end)
      end
      assert.raises("image: columns: expected an integer of at least 1, got 0",
         function() plot.image(image, {columns = 0}) end)
      assert.raises("image: scale: expected an integer from 1 to 1000, got 100000000",
         function() plot.image(image, {scale = 100000000}) end)
      assert.raises("image: gap: expected an integer from 0 to 1000, got 1000000000",
         function() plot.image(image, {gap = 1000000000}) end)
      for _, other in ipairs {image:to "complex64", torch.eye(3):to_sparse(),
         torch.quantize_per_tensor(image, 0.1, 0, "quint8")} do
         assert.raises("image: tensor: expected a dense tensor of real numbers", function() plot.image(other) end)
      end
   end)

   it("refuses other shapes", function()
      assert.raises("utils.plot.image: tensor: expected (H, W), (C, H, W)", "shape (2, 2, 2, 2)",
         function() plot.image(torch.ones(2, 2, 2, 2)) end)
      assert.raises("at least one pixel", function() plot.image(torch.ones(0, 3)) end)
   end)
end)
