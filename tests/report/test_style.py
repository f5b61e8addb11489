import matplotlib

from geoact.report.style import drawing, new_figure, save_figure


def test_a_figure_is_the_same_bytes_every_time(tmp_path):
    contents = []
    for name in ("one", "two"):
        with drawing():
            figure = new_figure(3, 2)
            axis = figure.subplots()
            axis.plot([0, 1], [1, 0], label="line")
            axis.legend()
            paths = save_figure(figure, tmp_path / name / "figure")
        assert [p.suffix for p in paths] == [".png", ".svg"]
        contents.append([p.read_bytes() for p in paths])
    assert contents[0] == contents[1]
    assert b"<dc:date>" not in contents[0][1]


def test_the_style_ends_with_its_block():
    before = matplotlib.rcParams["svg.hashsalt"]
    with drawing():
        assert matplotlib.rcParams["svg.hashsalt"] == "geoact"
    assert matplotlib.rcParams["svg.hashsalt"] == before
