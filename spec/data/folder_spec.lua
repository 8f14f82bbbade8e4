local torch = require "tlua"
local shell = require "spec.support.shell"

local fixtures <const> = "spec/fixtures/formats/"

local root
before_each(function() root = shell.ok("mktemp -d"):match "[^\n]+" end)
after_each(function() shell.ok("rm -rf " .. shell.quote(root)) end)

local function put(from, to)
   to = root .. "/" .. to
   shell.ok(("mkdir -p %s && cp %s %s"):format(shell.quote(to:match "^(.*)/"), fixtures .. from, shell.quote(to)))
end

local function names(dataset)
   local list = {}
   for i, sample in ipairs(dataset.samples) do list[i] = sample[1]:sub(#root + 2) .. " " .. sample[2] end
   return list
end

describe("data.ImageFolder", function()
   it("has a class for each folder, with the images in it and below it", function()
      put("alpha.png", "dog/2.PNG")
      put("alpha.png", "dog/1.png")
      put("alpha.png", "cat/deep/er/3.png")
      put("alpha.png", "cat/9.png")
      put("alpha.png", "cat/notes.txt")
      put("alpha.png", "lost.png")
      local images = torch.data.ImageFolder(root)
      assert.same({"cat", "dog"}, images.classes)
      assert.same({cat = 1, dog = 2}, images.class_to_idx)
      assert.same({"cat/9.png 1", "cat/deep/er/3.png 1", "dog/1.png 2", "dog/2.PNG 2"}, names(images))
      assert.same({1, 1, 2, 2}, images.targets)
      assert.equal(images.samples, images.imgs)
      assert.equal(4, #images)
   end)

   it("returns images of three channels and their class", function()
      put("alpha.png", "a/1.png")
      local expected = torch.load(fixtures .. "images.npz").alpha:permute {3, 1, 2}
      local images = torch.data.ImageFolder(root)
      local image, target = images:get(1)
      assert.equal("uint8", image.dtype)
      assert.same(expected:narrow(1, 1, 3):tolist(), image:tolist())
      assert.equal(1, target)
   end)

   it("calls transform and target_transform, also in the workers of a loader", function()
      for i = 1, 5 do put("alpha.png", ("%s/%d.png"):format(i % 2 == 0 and "even" or "odd", i)) end
      local images = torch.data.ImageFolder(root, {
         transform = function(x) return x:float() / 255 end,
         target_transform = function(class) return class * 10 end,
      })
      for _, workers in ipairs {0, 2} do
         local all = {}
         local loader = torch.data.DataLoader(images, {batch_size = 2, num_workers = workers})
         for x, y in loader:iter() do
            assert.same({3, 12, 20}, {x:size(2), x:size(3), x:size(4)})
            assert.equal("float32", x.dtype)
            for _, class in ipairs(y:tolist()) do all[#all + 1] = class end
         end
         assert.same({10, 10, 20, 20, 20}, all)
      end
   end)

   it("accepts a user's loader, and a function that selects files", function()
      shell.ok(("mkdir -p %s/a && echo one >%s/a/x.txt && echo two >%s/a/y.md"):format(root, root, root))
      local texts = torch.data.ImageFolder(root, {
         loader = function(path) return shell.read(path) end,
         is_valid_file = function(path) return path:find "%.txt$" ~= nil end,
      })
      assert.same({"one\n", 1}, {texts:get(1)})
      local folder = torch.data.DatasetFolder(root, shell.read, {extensions = {".MD"}})
      assert.same({"two\n", 1}, {folder:get(1)})
   end)

   it("names missing files and folders", function()
      assert.raises("data.DatasetFolder: " .. root .. "/none: No such file",
         function() torch.data.ImageFolder(root .. "/none") end)
      assert.raises("expected a folder for each class, got none", function() torch.data.ImageFolder(root) end)
      put("alpha.png", "cat/1.png")
      shell.ok("mkdir " .. root .. "/bird " .. root .. "/dog")
      assert.raises("no valid file for the classes bird, dog; expected files that end in .jpg, .jpeg, .png",
         function() torch.data.ImageFolder(root) end)
      local images = torch.data.ImageFolder(root, {allow_empty = true})
      assert.same({"bird", "cat", "dog"}, images.classes)
      assert.same({2}, images.targets)
      assert.raises("either extensions or is_valid_file", function() torch.data.DatasetFolder(root, print) end)
   end)
end)
