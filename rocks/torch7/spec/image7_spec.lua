-- Tests Torch7's package image against values computed by hand.

local torch = require "torch7"
local image = require "tlua.torch7.image"

local function near(a, b, tolerance)
   assert.is_true(math.abs(a - b) <= (tolerance or 1e-12), ("%s and %s"):format(a, b))
end
local function close(expected, got, tolerance)
   assert.same(expected:size():totable(), got:size():totable())
   near(0, (expected - got):abs():max(), tolerance)
end

local square = torch.Tensor {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}

describe("Torch7's image", function()
   it("stores results in a tensor that precedes the image", function()
      local rgb = torch.rand(3, 4, 5)
      local field = torch.zeros(2, 4, 5)
      local calls = {
         crop = {1, 0, 4, 3}, translate = {1, -1}, hflip = {}, vflip = {}, flip = {2}, rotate = {0.3},
         rgb2yuv = {}, yuv2rgb = {}, rgb2y = {}, rgb2hsv = {}, hsv2rgb = {}, rgb2hsl = {}, hsl2rgb = {},
         rgb2lab = {}, lab2rgb = {}, rgb2nrgb = {}, warp = {field}, convolve = {torch.ones(2, 2)},
         polar = {}, logpolar = {"bilinear", "full"},
      }
      for name, rest in pairs(calls) do
         local expected = image[name](rgb, table.unpack(rest))
         local into = torch.Tensor()
         local same = image[name](into, rgb, table.unpack(rest))
         assert.equal(into, same)
         close(expected, into)
         assert.raises("image." .. name, function() image[name](3) end)
      end
      local into = torch.Tensor(3, 2, 2)
      assert.equal(into, image.scale(into, rgb, "simple"))
   end)

   it("scales lines by means and by interpolation", function()
      local line = torch.Tensor {{1, 2, 3, 4}}
      assert.same({{1.5, 3.5}}, image.scale(line, 2, 1):totable())
      -- each of the three pixels covers 4/3 pixels of the source; the first is (1 + 2/3) / (4/3)
      local third = image.scale(line, 3, 1)
      near((1 + 2 / 3) * 3 / 4, third[1][1])
      near((2 * 2 / 3 + 3 * 2 / 3) * 3 / 4, third[1][2])
      local longer = image.scale(torch.Tensor {{0, 3}}, 4, 1)
      close(torch.Tensor {{0, 1, 2, 3}}, longer)
      close(torch.Tensor {{0, 1, 2, 3, 4}}, image.scale(torch.Tensor {{0, 2, 4}}, 5, 1, "bicubic"), 0.26)
      near(2, image.scale(torch.Tensor {{0, 2, 4}}, 5, 1, "bicubic")[1][3])
      assert.same({{1.0, 1.0, 2.0, 2.0}}, image.scale(torch.Tensor {{1, 2}}, 4, 1, "simple"):totable())
      local sizes = {["6x3"] = {3, 6}, ["8"] = {4, 8}, ["^4"] = {4, 8}, ["*2"] = {4, 8}, ["*3/2"] = {3, 6}}
      for size, expected in pairs(sizes) do
         assert.same(expected, image.scale(torch.rand(2, 4), size):size():totable())
      end
      assert.same({2, 3, 6}, image.scale(torch.rand(2, 2, 4), 6):size():totable())
      assert.raises("image.scale: size: expected", function() image.scale(square, "wide") end)
      assert.raises("image.scale: mode: expected 'bilinear'", function() image.scale(square, 2, 2, "cubic") end)
   end)

   it("samples in polar coordinates", function()
      local disc = torch.zeros(9, 9)
      disc[5]:narrow(1, 5, 5):fill(1) -- This statement draws a line from the centre to the right.
      local polar = image.polar(torch.Tensor(8, 4), disc)
      assert.same({1.0, 1.0, 1.0, 1.0}, polar[1]:totable())
      assert.same({1.0, 0.0, 0.0, 0.0}, polar[3]:totable())
      assert.same({4, 4}, image.polar(disc):size():totable())
      assert.same({6, 6}, image.polar(disc, "bilinear", "full"):size():totable())
      assert.same({1.0, 1.0}, image.logpolar(torch.Tensor(4, 2), disc)[1]:totable())
      assert.raises("mode: expected 'valid' or 'full'", function() image.polar(disc, "simple", "all") end)
   end)

   it("warps with clamped and padded positions", function()
      local flow = torch.zeros(2, 3, 3)
      flow[2]:fill(1)
      assert.same({{2.0, 3.0, 3.0}, {5.0, 6.0, 6.0}, {8.0, 9.0, 9.0}}, image.warp(square, flow, "simple"):totable())
      assert.same({{2.0, 3.0, -1.0}, {5.0, 6.0, -1.0}, {8.0, 9.0, -1.0}},
         image.warp(square, flow, "bilinear", true, "pad", -1):totable())
      close(image.warp(square, flow, "simple"), image.warp(square, flow, "lanczos"), 1e-9)
      local all = torch.zeros(2, 1, 2)
      assert.same({{1.0, 1.0}}, image.warp(square, all, "simple", false):totable())
      assert.raises("pad_val: expected no value", function() image.warp(square, flow, "simple", true, "clamp", 1) end)
      assert.raises("mode: expected 'simple'", function() image.warp(square, flow, "cubic") end)
      assert.raises("field: expected (2, height, width)", function() image.warp(square, torch.zeros(3, 3)) end)
   end)

   it("convolves in three modes", function()
      local ones = torch.ones(2, 2)
      assert.same({{12.0, 16.0}, {24.0, 28.0}}, image.convolve(square, ones):totable())
      assert.same({4, 4}, image.convolve(square, ones, "full"):size():totable())
      assert.same({3, 3}, image.convolve(square, ones, "same"):size():totable())
      assert.raises("mode: expected 'valid'", function() image.convolve(square, ones, "most") end)
   end)

   it("normalizes contrast", function()
      local x = torch.rand(12, 12)
      local y = image.lcn(x)
      -- the normalization removes scale and offset
      close(y, image.lcn(x * 3 + 5), 1e-9)
      local kernel = torch.ones(3, 3):div(9)
      local z = (x - x:mean()) / x:std()
      local part = z:narrow(1, 4, 3):narrow(2, 4, 3)
      local mean = part:mean()
      near((z[5][5] - mean) / math.sqrt(torch.cmul(part, part):mean() - mean ^ 2), image.lcn(x, kernel)[5][5], 1e-9)
   end)

   it("erodes and dilates binary images", function()
      local dot = torch.zeros(5, 5)
      dot[3][3] = 1
      local block = image.dilate(dot)
      assert.equal(9.0, block:sum())
      assert.same(dot:totable(), image.erode(block):totable())
      local cross = torch.Tensor {{0, 1, 0}, {1, 1, 1}, {0, 1, 0}}
      assert.equal(5.0, image.dilate(dot, cross):sum())
      assert.equal(25.0, image.erode(torch.ones(5, 5)):sum())
      assert.equal(9.0, image.erode(torch.ones(5, 5), nil, 0):sum())
      assert.raises("zeros and ones", function() image.dilate(square) end)
      assert.raises("expected odd sizes", function() image.erode(dot, torch.ones(2, 2)) end)
   end)

   it("makes pyramids", function()
      local list = image.gaussianpyramid(torch.rand(3, 8, 12), {0.5, 1, 2})
      assert.same({3, 4, 6}, list[1]:size():totable())
      assert.same({3, 8, 12}, list[2]:size():totable())
      assert.same({3, 16, 24}, list[3]:size():totable())
      local into = {torch.Tensor()}
      assert.equal(into, image.gaussianpyramid(into, torch.ones(4, 4), {0.5}))
      assert.same({2, 2}, into[1]:size():totable())
   end)

   it("makes kernels of Gaussians and Laplacians", function()
      assert.same({3, 3}, image.gaussian():size():totable())
      near(math.exp(-0.5 * (1 / (0.25 * 3)) ^ 2), image.gaussian(3)[2][1])
      near(2, image.gaussian(5, 0.25, 2)[3][3])
      near(1, image.gaussian {size = 5, normalize = true}:sum())
      local g = image.gaussian {width = 5, height = 3, sigma_horz = 0.1, sigma_vert = 0.5, mean_horz = 0.1}
      assert.same({3, 5}, g:size():totable())
      near(1, g[2][1]) -- The mean is at 0.1 * 5 + 0.5 = 1, which is the first column.
      near(math.exp(-0.5 * (1 / 0.5) ^ 2), g[2][2])
      local into = torch.FloatTensor(4, 6)
      assert.equal(into, image.gaussian {tensor = into})
      near(1, image.gaussian1D(5)[3])
      near(math.exp(-0.5 * (2 / (0.25 * 5)) ^ 2), image.gaussian1D {size = 5}[1])
      near(1, image.gaussian1D(5, 0.25, 1, true):sum())
      near(1, image.gaussian1D {size = 4, mean = 0.125}[1])
      local u = 0.5 * (1 / (0.25 * 5)) ^ 2
      near(1, image.laplacian(5)[3][3])
      near((1 - u) * math.exp(-u), image.laplacian(5)[3][2])
      assert.raises("there is no option 'sigmas'", function() image.gaussian {sigmas = 1} end)
   end)

   it("maps levels to colours", function()
      close(torch.Tensor {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, image.colormap(3), 1e-9)
      close(torch.Tensor {{0, 0, 0.5}, {0, 0.5, 1}, {0.5, 1, 0.5}, {1, 0.5, 0}, {0.5, 0, 0}}, image.jetColormap(5))
      local jet = image.y2jet(torch.linspace(1, 5, 5))
      assert.same({3, 1, 5}, jet:size():totable())
      assert.same({0.0, 0.0, 0.5, 1.0, 0.5}, jet[1][1]:totable())
      assert.same({3, 2, 2}, image.y2jet(torch.Tensor {{1, 2}, {3, 4}}):size():totable())
      assert.raises("expected levels from 1", function() image.y2jet(torch.zeros(2, 2)) end)
      assert.raises("nColor: expected a count", function() image.colormap(0) end)
   end)

   it("moves ranges", function()
      local x = torch.Tensor {-1, 0, 3}
      assert.same({0.0, 0.25, 1.0}, image.minmax {tensor = x}:totable())
      assert.same({-0.5, 0.0, 1.5}, image.minmax {tensor = x, min = 0, max = 2}:totable())
      assert.same({0.0, 0.0, 1.0}, image.minmax {tensor = x, min = 0, max = 2, saturate = true}:totable())
      assert.equal(0.5, image.minmax {tensor = x, symm = true}[2])
      local into = torch.Tensor()
      assert.equal(into, image.minmax {tensor = x, tensorOut = into})
      assert.equal(-1.0, x[1])
      assert.equal(x, image.minmax {tensor = x, inplace = true})
      assert.equal(0.0, x[1])
      assert.same({0.0, 0.0}, image.minmax {tensor = torch.Tensor {4, 4}}:totable())
   end)

   it("puts images side by side", function()
      local a, b = torch.Tensor {{0, 1}, {2, 3}}, torch.Tensor {{4, 5}, {6, 7}}
      local grid = image.toDisplayTensor({a, b}, 1)
      assert.same({2, 5}, grid:size():totable())
      near(3 / 7, grid[2][2])
      near(4 / 7, grid[1][4])
      near(0, image.toDisplayTensor {input = {a, b}, scaleeach = true}[1][3])
      assert.same({1, 2, 2}, image.toDisplayTensor(torch.rand(1, 2, 2)):size():totable())
      assert.same({2, 8}, image.toDisplayTensor {input = torch.rand(4, 2, 2)}:size():totable())
      assert.same({3, 2, 4}, image.toDisplayTensor(torch.rand(2, 3, 2, 2)):size():totable())
      near(0.5, image.toDisplayTensor {input = torch.Tensor {{-1, 0}}, symmetric = true}[1][2])
      assert.equal("torch.FloatTensor", image.toDisplayTensor(torch.ByteTensor {{0, 2}}):type())
      assert.raises("expected images of equal sizes, image 2", function()
         image.toDisplayTensor {a, torch.rand(3, 2)}
      end)
      local path = os.tmpname() .. ".png"
      assert.equal(path, image.display {image = {a, b}, zoom = 3, file = path})
      assert.same({1, 6, 12}, image.getSize(path):totable())
      os.remove(path)
      assert.raises("there are no windows", function() image.window() end)
      assert.raises("the picture is not part of this package", function() image.lena() end)
   end)

   it("draws rectangles and texts", function()
      local x = torch.zeros(3, 5, 6)
      local y = image.drawRect(x, 1, 1, 4, 3, {color = {255, 0, 51}})
      assert.equal(0.0, x:sum())
      assert.equal(10.0, y[1]:sum())
      near(0.2, y[3][2][2])
      assert.equal(0.0, y[1][3][3])
      assert.equal(x, image.drawRect(x, -1, -1, 9, 9, {inplace = true}))
      local blank = torch.zeros(3, 5, 6)
      assert.same(image.drawRect(blank, 1, 1, 3, 3):totable(), image.drawRect(blank, 1.5, 1, 3.9, 3):totable())
      assert.equal(0.0, x:sum())
      assert.equal(18.0, image.drawRect(x, 0, 0, 5, 4)[1]:sum())
      if pcall(require, "tlua.plot.font") then
         local text = image.drawText(torch.zeros(3, 12, 12), "I", 0, 0, {color = {0, 255, 0}})
         assert.equal(9.0, text[2]:sum())
         local big = image.drawText(torch.zeros(3, 12, 12), "I", 0, 0, {size = 2, bg = {0, 0, 255}})
         assert.equal(36.0, big[1]:sum())
         local lines = image.drawText(torch.zeros(3, 12, 12), "I\nI", 0, 0)
         assert.equal(9.0, lines[1]:narrow(1, 7, 6):sum())
         assert.equal(9.0, image.drawText(torch.zeros(3, 12, 5), "II", 0, 0)[1]:narrow(1, 7, 6):sum())
      end
      assert.raises("there is no option 'colour'", function() image.drawRect(x, 0, 0, 1, 1, {colour = {}}) end)
      assert.raises("expected an image (3, height, width)", function() image.drawText(square, "a", 0, 0) end)
   end)

   it("compresses", function()
      local x = torch.range(0, 47):div(255):resize(3, 4, 4)
      assert.same((x * 255):round():totable(), (image.decompressPNG(image.compressPNG(x)) * 255):round():totable())
      local encoded, bytes = pcall(image.compressJPG, torch.Tensor(3, 16, 16):fill(0.5), 90)
      if not encoded then
         assert.matches("libturbojpeg", bytes)
         return
      end
      assert.equal("torch.ByteTensor", bytes:type())
      assert.is_true((image.decompressJPG(bytes) - 0.5):abs():max() < 0.02)
      local path = os.tmpname() .. ".jpg"
      image.save(path, torch.Tensor(3, 16, 24):fill(0.5))
      assert.same({3, 16, 24}, image.getJPGsize(path):totable())
      os.remove(path)
   end)

   it("refuses unknown formats of crop, and depths and types of load", function()
      assert.raises("image.crop: format: expected 'c', 'tl', 'tr', 'bl' or 'br', got 'cc'",
         function() image.crop(square, "cc", 1, 1) end)
      local path = os.tmpname() .. ".png"
      image.save(path, torch.Tensor(3, 4, 4):fill(0.5))
      assert.raises("image.load: depth: expected 1 or 3, or the 3 channels of the image, got 2",
         function() image.load(path, 2) end)
      assert.raises("image.load: tensortype: expected 'float', 'double' or 'byte', got bite",
         function() image.load(path, 3, "bite") end)
      os.remove(path)
   end)

   it("reads and checks Netpbm files", function()
      local path = os.tmpname() .. ".pgm"
      local function load(text, ...)
         local file <close> = io.open(path, "wb")
         file:write(text)
         file:close()
         return image.load(path, ...)
      end
      -- numbers above 255 have two bytes, the higher byte first
      local x = load "P5\n2 1\n65535\n\255\255\64\0"
      near(1, x[1][1][1])
      near(0x4000 / 65535, x[1][1][2])
      assert.same({{{255, 64}}}, load("P5\n2 1\n65535\n\255\255\64\0", 1, "byte"):totable())
      for text, message in pairs {
         ["P5\n2 1\n65535\n\255\255\64"] = "image.load: the file is too short",
         ["P5\n0 1\n255\n"] = "image.load: expected sizes of at least 1 and a maximum from 1 to 65535, got 0 x 1",
         ["P2\n1 1\n0\n3"] = "got 1 x 1 and 0",
      } do
         local good, problem = pcall(load, text)
         assert.is_false(good)
         assert.matches(message, problem, 1, true)
      end
      os.remove(path)
   end)

   it("refuses wrong arguments, and names them", function()
      for message, fn in pairs {
         ["image.load: path: expected a string, got nil"] = function() image.load() end,
         ["image.decompress: bytes: expected a ByteTensor"] = function() image.decompress "abc" end,
         ["image.compressJPG: quality: expected a number from 1 to 100, got a float64 tensor of shape (3, 3)"] =
            function() image.compressJPG(square, square) end,
         ["image.compressPNG: picture: expected an image of 2 or 3 dimensions, got nil"] =
            function() image.compressPNG() end,
         ["image.crop: src: expected an image"] = function() image.crop(torch.ones(3), 0, 0) end,
         ["image.crop: x1: expected a finite number, got nil"] = function() image.crop(square) end,
         ["image.crop: width: expected a finite number, got nil"] =
            function() image.crop(square, "c") end,
         ["image.scale: src: expected an image, got nil"] = function() image.scale() end,
         ["image.scale: expected sizes from 1 to 16777216, got 1e+300x1e+300"] =
            function() image.scale(square, 1e300, 1e300) end,
         ["image.toDisplayTensor: input[2]: expected an image of 2 or 3 dimensions, got nil"] =
            function() image.toDisplayTensor {input = {square, nil, square}} end,
         ["image.toDisplayTensor: padding: expected an integer of at least 0, got -1"] =
            function() image.toDisplayTensor {input = {square, square}, padding = -1} end,
         ["image.gaussian: size: expected an integer of at least 1, got \"a\""] = function() image.gaussian "a" end,
         ["image.lcn: src: expected an image, got nil"] = function() image.lcn() end,
         ["image.minmax: min: expected a number, got \"a\""] =
            function() image.minmax {tensor = square, min = "a"} end,
         ["image.polar: dst: expected a tensor, got \"a\""] = function() image.polar("a", square) end,
         ["image.drawRect: x1: expected a finite number, got nil"] = function()
            image.drawRect(torch.zeros(3, 4, 4), nil, 1, 1, 1)
         end,
      } do
         assert.raises(message, fn)
      end
   end)

   it("writes one sign for a letter that the font lacks, and names wrong arguments of drawText", function()
      if not require "tlua".has "utils.plot" then return pending "needs the package plot, which has the font" end
      assert.raises("image.drawText: y: expected a finite number, got nil", function()
         image.drawText(torch.zeros(3, 4, 4), "a", 1)
      end)
      -- a letter that the font does not have takes the place of one letter
      local once = image.drawText(torch.zeros(3, 12, 40), "é", 0, 0)
      assert.same(image.drawText(torch.zeros(3, 12, 40), "?", 0, 0):totable(), once:totable())
   end)

   it("refuses what it cannot save", function()
      assert.raises("expected a name that ends with .png, .jpg, .ppm or .pgm",
         function() image.save("x.bmp", square) end)
      assert.raises("image.save: picture: expected an image of 2 or 3 dimensions, got \"y\"",
         function() image.save("x.png", "y") end)
   end)
end)
