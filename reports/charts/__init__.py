"""Pictures as geometry: numbers in, `Drawing` out; the page template makes inline SVG of it."""
