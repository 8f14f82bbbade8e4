-- cd rocks/plot && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-plot"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Draws curves and images, in the terminal and as SVG and PNG",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.plot.Axes"] = "Axes.lua",
      ["tlua.plot.artists.bars"] = "artists/bars.lua",
      ["tlua.plot.artists.common"] = "artists/common.lua",
      ["tlua.plot.artists.lines"] = "artists/lines.lua",
      ["tlua.plot.artists.matrices"] = "artists/matrices.lua",
      ["tlua.plot.artists.notes"] = "artists/notes.lua",
      ["tlua.plot.artists.space"] = "artists/space.lua",
      ["tlua.plot.canvas"] = "canvas.lua",
      ["tlua.plot.colours"] = "colours.lua",
      ["tlua.plot.contours"] = "contours.lua",
      ["tlua.plot.curves"] = "curves.lua",
      ["tlua.plot.font"] = "font.lua",
      ["tlua.plot.images"] = "images.lua",
      ["tlua.plot"] = "init.lua",
      ["tlua.plot.marks"] = "marks.lua",
      ["tlua.plot.panels"] = "panels.lua",
      ["tlua.plot.space"] = "space.lua",
      ["tlua.plot.values"] = "values.lua",
      ["tlua.plot.vocabulary"] = "vocabulary.lua",
   },
}
